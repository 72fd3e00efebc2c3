/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The hot path where nothing but requests is wanted that processes answer: nothing is
 * counted of peers, and calls need not be timed. At the tracepoints, which run within the
 * call, its beginning is not even looked at.
 */
#ifndef EBPFRECEIVER_NETWORK_ANSWERS_H
#define EBPFRECEIVER_NETWORK_ANSWERS_H

#include "network_capture.h"

/* The thread has moved so many bytes of a stream: looks for the connection, false where that is none of those that are wanted. */
static __always_inline bool answers_find(struct task_struct *task, struct capture_transfer *transfer, s64 result, int flags)
{
	struct sock *sk = transfer->sk;

	if (result <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) || network_is_outside(task) || sk->sk_type != SOCK_STREAM)
		return false;
	transfer->length = result;
	if (network_series_for(sk, task, &transfer->socket) == NETWORK_NONE)
		return false;
	if (!transfer->socket)
		transfer->socket = network_socket_of(sk); /* it was met just now */
	return transfer->socket;
}

/* Where the running call, whichever it is, has its bytes; nothing where it moves several messages. */
static __always_inline void answers_source(struct network_source *from, struct task_struct *task)
{
	struct pt_regs *saved = (struct pt_regs *)bpf_task_pt_regs(task);
	u32 call;

#if defined(__TARGET_ARCH_x86)
	call = saved->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	call = saved->syscallno;
#endif
	if (call == CALL_SENDMMSG || call == CALL_RECVMMSG)
		call = ~0U;
	capture_source_of(from, saved, call, 0);
}

/* A socket has sent or received. */
static __always_inline int answers_transferred(struct sock *sk, s64 result, u32 operation, int flags)
{
	struct capture_transfer transfer = { .sk = sk, .kind = operation };
	struct task_struct *task = network_task();
	struct network_source from = {};

	if (!answers_find(task, &transfer, result, flags))
		return 0;
	answers_source(&from, task);
	transfer.from = &from;
	transfer.ended = bpf_ktime_get_ns();
	transfer.began = transfer.ended; /* nobody knows: see capture_is_late() */
	capture_stream(&transfer, false);
	return 0;
}

/* A function behind a call has sent or received; when it began and where its bytes are was noted then. */
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
	thread->since = 0;
	return 0;
}

#endif
