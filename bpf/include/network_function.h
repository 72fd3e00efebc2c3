/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Transfers as the kernel's functions show them that are behind all calls.
 */
#ifndef EBPFRECEIVER_NETWORK_FUNCTION_H
#define EBPFRECEIVER_NETWORK_FUNCTION_H

#include "network_transfer.h"

/* The name of a message is the kernel's own copy here. */
static __always_inline int moved(struct socket *socket, struct msghdr *message, s64 result, u32 operation, int flags)
{
	struct task_struct *task = network_task();
	struct network_socket *remembered = 0;
	struct network_sockaddr name = {};
	struct network_record *record;
	struct network_thread *thread;
	struct network_peer peer = {};
	struct sock *sk = socket->sk;
	void *pointer;
	u64 now;
	u32 id;

	if (!sk || network_is_outside(task) || network_is_no_transfer(result, flags))
		return 0;
	if (network_is_of_datagrams(sk)) {
		if (flags & MSG_PEEK)
			return 0;
		pointer = message ? BPF_CORE_READ(message, msg_name) : 0;
		if (pointer && !bpf_probe_read_kernel(&name, sizeof(name), pointer))
			network_parse_peer(&peer, &name);
		id = network_flow(sk, &peer, network_datagram_role(sk, operation));
	} else {
		id = network_series_for(sk, task, &remembered);
	}
	record = network_record(id);
	if (!record)
		return 0;
	network_add(record, flags & MSG_PEEK ? 0 : result, operation);
	thread = network_thread_of(task);
	if (!thread || !thread->since)
		return 0;
	now = bpf_ktime_get_ns();
	network_time(record, task, thread, now, operation);
	thread->since = 0;
	network_look_at_rtt(record, sk, remembered, now);
	return 0;
}

#endif
