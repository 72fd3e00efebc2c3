/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Transfers if only the requests that processes answer are captured: no series of peers are counted and no
 * calls are timed. The tracepoints run within the call, so that no program is needed at its entry.
 */
#ifndef EBPFRECEIVER_NETWORK_ANSWERS_H
#define EBPFRECEIVER_NETWORK_ANSWERS_H

#include "network_capture.h"
#include "network_uring.h"

/* Finds the connection of a transfer on a stream; false if it is not in scope. */
static __always_inline bool answers_find(struct task_struct *task, struct capture_transfer *transfer, s64 result, int flags)
{
	struct sock *sk = transfer->sk;

	if (result <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) || network_is_out_of_scope(task) || sk->sk_type != SOCK_STREAM)
		return false;
	transfer->length = result;
	if (network_series_for(sk, task, &transfer->socket) == NETWORK_NONE)
		return false;
	if (!transfer->socket)
		transfer->socket = network_socket_of(sk); /* created by this call */
	return transfer->socket;
}

/* Finds the memory of the running system call; none if it transfers several messages. */
static __always_inline void answers_source(struct network_source *from, struct task_struct *task)
{
	struct pt_regs *saved = (struct pt_regs *)bpf_task_pt_regs(task);
	u32 call = network_call_number(saved);

	if (call == CALL_SENDMMSG || call == CALL_RECVMMSG)
		call = ~0U;
	capture_source_of(from, saved, call, 0);
}

/* Runs at sock_send_length and sock_recv_length. */
static __always_inline int answers_transferred(struct sock *sk, s64 result, u32 operation, int flags)
{
	struct capture_transfer transfer = { .sk = sk, .kind = operation };
	struct task_struct *task = network_task();
	struct network_source from = {};

	if (!answers_find(task, &transfer, result, flags))
		return 0;
	transfer.from = &from;
	transfer.ended = bpf_ktime_get_ns();
	transfer.began = transfer.ended; /* unknown: see capture_is_late() */
	if (!uring_may_work(task) || !uring_moves(sk, operation, result, &from, &transfer.began))
		answers_source(&from, task);
	else if (!from.base)
		uring_report_unseen(sk, transfer.socket);
	capture_stream(&transfer, false);
	return 0;
}

/* Runs when a function behind a call returns; its beginning and memory were recorded at its entry. */
static __always_inline int answers_moved(struct socket *socket, s64 result, u32 operation, int flags, bool pages)
{
	struct capture_transfer transfer = { .sk = socket->sk, .kind = operation };
	struct task_struct *task = network_task();
	struct network_thread *thread;

	if (!transfer.sk || !answers_find(task, &transfer, result, flags))
		return 0;
	thread = network_thread_of(task);
	if (!thread || !thread->since)
		return 0;
	transfer.from = &thread->source;
	transfer.began = thread->since;
	transfer.ended = bpf_ktime_get_ns();
	capture_stream(&transfer, pages);
	if (uring_hides(task, transfer.sk, &transfer, result, flags))
		uring_report_unseen(transfer.sk, transfer.socket);
	thread->since = 0;
	return 0;
}

#endif
