/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Transfers as the kernel's functions show them that are behind all calls.
 */
#ifndef EBPFRECEIVER_NETWORK_FUNCTION_H
#define EBPFRECEIVER_NETWORK_FUNCTION_H

#include "network_lookup.h"

/* A socket that is not connected has sent or received a datagram; the name of its message is the kernel's own copy here. */
static __noinline int moved_datagram(struct sock *sk, struct msghdr *message, s64 result, u32 operation)
{
	void *pointer = message ? BPF_CORE_READ(message, msg_name) : 0;
	u64 known = network_datagram_socket(sk, operation);
	struct task_struct *task = network_task();
	struct capture_datagram datagram = {};
	struct network_sockaddr name = {};
	struct network_peer peer = {};
	struct network_record *record;
	struct network_thread *thread;

	if (pointer && !bpf_probe_read_kernel(&name, sizeof(name), pointer))
		network_parse_peer(&peer, &name);
	datagram.series = network_flow(sk, &peer, known);
	record = network_record(datagram.series);
	if (!record)
		return 0;
	network_add(record, result, operation);
	thread = network_thread_of(task);
	if (!thread || !thread->since)
		return 0;
	datagram.began = thread->since;
	datagram.ended = bpf_ktime_get_ns();
	network_time(record, task, thread, datagram.ended, operation);
	thread->since = 0;
	if (result <= 0)
		return 0;
	datagram.from = &thread->source;
	datagram.sock = (u64)sk;
	datagram.stream = known >> 32;
	datagram.length = result;
	datagram.kind = operation;
	datagram.slot = capture_slot(sk, operation);
	return capture_datagram(&datagram);
}

static __always_inline int moved(struct socket *socket, struct msghdr *message, s64 result, u32 operation, int flags)
{
	struct capture_transfer transfer = { .sk = socket->sk, .kind = operation };
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;
	struct sock *sk = socket->sk;

	if (!sk || network_is_outside(task) || network_is_no_transfer(result, flags))
		return 0;
	if (network_is_of_datagrams(sk))
		return flags & MSG_PEEK ? 0 : moved_datagram(sk, message, result, operation);
	record = network_record(network_series_for(sk, task, &transfer.socket));
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
	capture_transfer(record, &transfer, result, flags);
	thread->since = 0;
	return 0;
}

/* A message begins to be sent or received. */
static __always_inline int moves(struct msghdr *message)
{
	struct network_thread *thread = network_begin(0);

	if (thread && capture_bytes)
		capture_source_of_message(&thread->source, message);
	return 0;
}

#endif
