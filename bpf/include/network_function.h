/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Transfers as fentry and fexit of socket functions show them.
 */
#ifndef EBPFRECEIVER_NETWORK_FUNCTION_H
#define EBPFRECEIVER_NETWORK_FUNCTION_H

#include "network_carried.h"

/* Returns the series of a datagram. The peer's address is in the kernel's copy of the message here. */
static __always_inline u32 moved_datagram(struct sock *sk, struct msghdr *message, u32 role)
{
	void *pointer = message ? BPF_CORE_READ(message, msg_name) : 0;
	struct network_sockaddr name = {};
	struct network_peer peer = {};

	if (pointer && !bpf_probe_read_kernel(&name, sizeof(name), pointer))
		network_parse_peer(&peer, &name);
	return network_flow(sk, &peer, role);
}

/* Records a transfer by a function, of a message or, without one, of pages. */
static __always_inline int moved(struct socket *socket, struct msghdr *message, s64 result, u32 operation, int flags, bool pages)
{
	struct capture_transfer transfer = { .sk = socket->sk, .kind = operation };
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;
	struct sock *sk = socket->sk;
	bool connected;
	u64 known = 0;
	u32 id;

	if (!sk || network_is_out_of_scope(task) || network_is_no_transfer(result, flags))
		return 0;
	connected = !network_is_of_datagrams(sk);
	if (connected) {
		id = network_series_for(sk, task, &transfer.socket);
	} else if (flags & MSG_PEEK) {
		return 0;
	} else {
		known = network_datagram_socket(sk, operation);
		id = moved_datagram(sk, message, known);
	}
	record = network_record(id);
	if (!record)
		return 0;
	network_add(record, flags & MSG_PEEK ? 0 : result, operation);
	thread = network_thread_of(task);
	if (!thread || !thread->since)
		return 0;
	transfer.from = &thread->source;
	transfer.began = thread->since;
	transfer.ended = bpf_ktime_get_ns();
	network_time(record, task, thread, transfer.ended, operation);
	if (connected) {
		capture_transfer(record, &transfer, result, flags, pages);
		if (capture_bytes && uring_hides(task, sk, &transfer, result, flags))
			uring_report_unseen(sk, transfer.socket);
	} else if (result > 0 && !pages) {
		capture_datagram(thread, (u64)sk, capture_name(known, id), capture_way(capture_slot(sk, operation), operation), result);
	}
	thread->since = 0;
	return 0;
}

/* Records the beginning of a transfer of a message. */
static __always_inline int moves(struct msghdr *message)
{
	struct network_thread *thread = network_begin(0);

	if (thread && capture_bytes)
		capture_source_of_message(&thread->source, message);
	return 0;
}

#endif
