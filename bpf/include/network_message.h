/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Transfers as tracepoints show them, with the system calls that make them.
 */
#ifndef EBPFRECEIVER_NETWORK_MESSAGE_H
#define EBPFRECEIVER_NETWORK_MESSAGE_H

#include "network_carried.h"
#include "network_file.h"

/*
 * Number of received datagrams whose system calls have not returned. If it is 0, the returns of calls need no
 * inspection.
 */
u32 datagrams_pending;

/* Records a datagram of a socket that is not connected. */
static __always_inline int transferred_datagram(struct sock *sk, struct task_struct *task, s64 result, u32 operation)
{
	struct network_thread *thread = network_thread_of(task);
	struct network_record *record;
	struct network_peer peer = {};
	struct pt_regs *saved = 0;
	u64 pointer, known = network_datagram_socket(sk, operation);
	u32 id;

	if (thread && thread->since)
		saved = network_registers(task, thread);
	if (saved) {
		pointer = network_peer_pointer(saved, thread->call, thread->messages);
		if (pointer && operation == NETWORK_READ) {
			if (!thread->sock)
				__sync_fetch_and_add(&datagrams_pending, 1);
			thread->sock = (u64)sk; /* the kernel writes it later: see receive_ends */
			thread->role = known;
			thread->stream = known >> 32;
			return 0;
		}
		network_read_peer(&peer, pointer);
	}
	id = network_flow(sk, &peer, known);
	record = network_record(id);
	if (!record)
		return 0;
	network_add(record, result, operation);
	if (!saved)
		return 0;
	if (result > 0) {
		capture_source_of(&thread->source, saved, thread->call, thread->messages);
		capture_datagram(thread, (u64)sk, capture_name(known, id), capture_way(capture_slot(sk, operation), operation), result);
	}
	network_timed(record, task, thread, operation);
	return 0;
}

/* Times a call, or a message of it, and finds its memory; false if the beginning of the call was not recorded. */
static __always_inline bool message_of_call(struct network_record *record, struct task_struct *task, struct network_thread *thread,
					    struct capture_transfer *transfer)
{
	struct pt_regs *saved;

	if (!thread || !thread->since)
		return false;
	saved = network_registers(task, thread);
	if (!saved)
		return false;
	if (capture_bytes)
		capture_source_of(&thread->source, saved, thread->call, thread->messages);
	transfer->began = thread->since;
	network_time(record, task, thread, transfer->ended, transfer->kind);
	return true;
}

static __always_inline int transferred(struct sock *sk, s64 result, u32 operation, int flags)
{
	struct capture_transfer transfer = { .sk = sk, .kind = operation };
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;
	bool ring = false;

	if (network_is_out_of_scope(task) || network_is_no_transfer(result, flags))
		return 0;
	if (network_is_of_datagrams(sk))
		return flags & MSG_PEEK ? 0 : transferred_datagram(sk, task, result, operation);
	record = network_record(network_series_for(sk, task, &transfer.socket));
	if (!record)
		return 0;
	network_add(record, flags & MSG_PEEK ? 0 : result, operation);
	thread = network_thread_of(task);
	transfer.ended = bpf_ktime_get_ns();
	if (capture_bytes && uring_may_work(task)) {
		if (!thread)
			thread = uring_thread(task);
		transfer.began = transfer.ended;
		ring = thread && uring_moves(sk, operation, result, &thread->source, &transfer.began);
	}
	if (!ring && !message_of_call(record, task, thread, &transfer))
		return 0;
	transfer.from = &thread->source;
	capture_transfer(record, &transfer, result, flags, false);
	if (!result && unix_has_ended(sk, transfer.socket))
		capture_end(sk, transfer.socket);
	if (!ring)
		network_next(task, thread, transfer.ended);
	else if (result > 0 && !thread->source.base && capture_may_carry(sk) && !(flags & MSG_PEEK))
		uring_report_unseen(sk, transfer.socket);
	return 0;
}

/* Datagrams that a call has received. Their peers are in user space when it returns. */
struct datagrams {
	struct network_thread *thread;
	struct pt_regs *saved;
	struct sock *sk;
	u64 first; /* address of the first struct mmsghdr, or of a sockaddr */
	u64 worked, waited; /* ns per datagram */
};

/* Counts a received datagram and returns its series. */
static __noinline u32 count_datagram(struct datagrams *all, u64 pointer, s64 bytes)
{
	struct network_record *record;
	struct network_peer peer = {};
	u32 id;

	network_read_peer(&peer, pointer);
	id = network_flow(all->sk, &peer, all->thread->role);
	record = network_record(id);
	if (!record)
		return NETWORK_NONE;
	network_add(record, bytes, NETWORK_READ);
	network_observe(&record->operations[NETWORK_READ], all->worked);
	if (all->waited)
		network_observe(&record->waits[NETWORK_WAIT_READ], all->waited);
	all->waited = 0; /* the call has waited once */
	return id;
}

/* Captures the n-th datagram of a call if it is a lookup. */
static __noinline int capture_received(struct datagrams *all, u32 id, s64 bytes, u32 n)
{
	if (id == NETWORK_NONE || bytes <= 0)
		return 0;
	capture_source_of(&all->thread->source, all->saved, all->thread->call, n);
	capture_datagram(all->thread, (u64)all->sk, capture_name((u64)all->thread->stream << 32, id), capture_way(CAPTURE_SLOT_RETURNS, NETWORK_READ), bytes);
	return 0;
}

static long count_message(u32 n, struct datagrams *all)
{
	u64 header = all->first + (u64)n * MMSG_BYTES, name = 0;
	u32 bytes = 0;

	bpf_probe_read_user(&name, sizeof(name), (void *)(header + MSG_NAME_OFFSET));
	bpf_probe_read_user(&bytes, sizeof(bytes), (void *)(header + MSG_LEN_OFFSET));
	capture_received(all, count_datagram(all, name, bytes), bytes, n);
	return 0;
}

/* Runs at the return of recvfrom, recvmsg or recvmmsg: the peers of datagrams are in user space now. */
static __always_inline int received_datagrams(s64 result)
{
	struct task_struct *task = network_task();
	struct datagrams all = {};
	u64 now;
	u32 n;

	if (!datagrams_pending || network_is_out_of_scope(task))
		return 0;
	all.thread = network_thread_of(task);
	if (!all.thread || !all.thread->sock)
		return 0;
	all.sk = (struct sock *)all.thread->sock;
	all.thread->sock = 0;
	__sync_fetch_and_add(&datagrams_pending, -1);
	all.saved = network_registers(task, all.thread);
	if (!all.saved || result < 0)
		return 0;
	now = bpf_ktime_get_ns();
	all.worked = network_worked(task, all.thread, now, &all.waited);
	if (all.thread->call != CALL_RECVMMSG) {
		capture_received(&all, count_datagram(&all, network_peer_pointer(all.saved, all.thread->call, 0), result), result, 0);
	} else if (result) {
		n = result;
		all.first = network_argument_1(all.saved);
		all.worked /= n;
		bpf_loop(n, count_message, &all, 0);
	}
	all.thread->since = 0;
	return 0;
}

/* Runs at the return of splice: no tracepoint reports what it reads from a socket. */
static __always_inline int spliced(s64 result)
{
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;
	const struct sock *sk;
	struct pt_regs *saved;

	thread = result < 0 ? 0 : network_calling(task);
	if (!thread)
		return 0;
	saved = network_registers(task, thread);
	if (!saved || thread->call != CALL_SPLICE)
		return 0;
	sk = network_sock_of_descriptor(task, network_argument_0(saved));
	if (!sk)
		return 0;
	record = network_record(network_find(sk, NETWORK_NO_ROLE));
	if (!record)
		return 0;
	network_add(record, result, NETWORK_READ);
	network_time(record, task, thread, bpf_ktime_get_ns(), NETWORK_READ);
	thread->since = 0;
	return 0;
}

#endif
