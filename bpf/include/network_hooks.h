/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The programs of both network objects. network_capture.bpf.c defines NETWORK_CAPTURE, so that those at transfers
 * also capture what is transferred.
 */
#ifndef EBPFRECEIVER_NETWORK_HOOKS_H
#define EBPFRECEIVER_NETWORK_HOOKS_H

#include "network_adopt.h"
#include "network_drop.h"
#include "network_function.h"
#include "network_life.h"
#include "network_message.h"

#include <bpf/bpf_tracing.h>

/* Arguments of programs at tracepoints of system calls. */
struct call_begins {
	u64 common;
	u32 number;
	u32 unused;
	u64 arguments[6];
};

struct call_ends {
	u64 common;
	u32 number;
	u32 unused;
	s64 result;
};

/* Runs at the entry of a system call that may transfer. */
SEC("tracepoint")
int call_begins(struct call_begins *ctx)
{
	network_begin(ctx->number);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sent, struct sock *sk, int result, int flags)
{
	return transferred(sk, result, NETWORK_WRITE, 0);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *sk, int result, int flags)
{
	return transferred(sk, result, NETWORK_READ, flags);
}

/*
 * With trampolines: fentry and fexit of inet_sendmsg and the corresponding functions of other address
 * families. The loader attaches one copy of these programs to each function.
 */
SEC("fentry/inet_sendpage")
int BPF_PROG(function_begins)
{
	struct network_thread *thread = network_begin(0);

	if (thread)
		thread->source.base = 0;
	return 0;
}

SEC("fentry/inet_sendmsg")
int BPF_PROG(message_begins, struct socket *socket, struct msghdr *message)
{
	return moves(message);
}

SEC("fexit/inet_sendmsg")
int BPF_PROG(function_sent, struct socket *socket, struct msghdr *message, u64 size, int result)
{
	return moved(socket, message, result, NETWORK_WRITE, 0, false);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(function_received, struct socket *socket, struct msghdr *message, u64 size, int flags, int result)
{
	return moved(socket, message, result, NETWORK_READ, flags, false);
}

/* SOCK_SEQPACKET sockets have a function of their own, which may or may not call this one. */
SEC("fexit/unix_dgram_recvmsg")
int BPF_PROG(datagram_received, struct socket *socket, struct msghdr *message, u64 size, int flags, int result)
{
	return socket->sk->sk_type == SOCK_SEQPACKET ? 0 : moved(socket, message, result, NETWORK_READ, flags, false);
}

/* Up to Linux 6.4, sendfile sends pages. */
SEC("fexit/inet_sendpage")
int BPF_PROG(function_sent_page, struct socket *socket, void *page, int offset, u64 size, int flags, s64 result)
{
	return moved(socket, 0, result, NETWORK_WRITE, 0, true);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(function_spliced, struct socket *socket, void *position, void *pipe, u64 size, u32 flags, s64 result)
{
	return moved(socket, 0, result, NETWORK_READ, 0, true);
}

/* Runs at the return of recvfrom, recvmsg and recvmmsg. */
SEC("tracepoint")
int receive_ends(struct call_ends *ctx)
{
	return received_datagrams(ctx->result);
}

/* Runs at the return of splice: no tracepoint reports what it reads from a socket. */
SEC("tracepoint")
int splice_ends(struct call_ends *ctx)
{
	return spliced(ctx->result);
}

/* Runs at the entry of accept and connect. */
SEC("tracepoint")
int open_begins(struct call_begins *ctx)
{
	struct network_thread *thread = network_begin(ctx->number);
	const struct sock *sk;

	if (!thread)
		return 0;
	sk = network_sock_of_descriptor(network_task(), ctx->arguments[0]);
	thread->sock = (u64)sk;
	thread->address = ctx->arguments[1];
	if (sk && BPF_CORE_READ(sk, sk_socket, state) == SS_CONNECTING)
		thread->messages = NETWORK_HANDSHAKE_SOCKET; /* this connect() returns the result of an earlier one */
	return 0;
}

SEC("tracepoint")
int accept_ends(struct call_ends *ctx)
{
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;
	u64 now, worked, waited;
	const struct sock *sk;

	thread = ctx->result < 0 ? 0 : network_calling(task);
	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	worked = network_worked(task, thread, now, &waited);
	thread->since = 0;
	sk = network_sock_of_descriptor(task, ctx->result);
	if (!sk)
		return 0;
	record = network_record(network_find(sk, network_transport_of(sk) == NETWORK_TCP ? NETWORK_SERVER : NETWORK_NO_ROLE));
	if (!record)
		return 0;
	network_observe(&record->operations[NETWORK_ACCEPT], worked);
	if (waited)
		network_observe(&record->waits[NETWORK_WAIT_ACCEPT], waited);
	return 0;
}

/* Of TCP, the duration of the handshake is recorded, or why it did not begin. */
SEC("tracepoint")
int connect_ends(struct call_ends *ctx)
{
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;
	struct network_peer peer = {};
	const struct sock *sk;
	u32 id;

	thread = network_calling(task);
	if (!thread || !thread->sock)
		return 0;
	sk = (const struct sock *)thread->sock;
	if (network_transport_of(sk) != NETWORK_TCP) {
		record = network_record(ctx->result ? NETWORK_NONE : network_find(sk, NETWORK_NO_ROLE));
		if (record)
			network_observe(&record->operations[NETWORK_CONNECT], bpf_ktime_get_ns() - thread->since);
	} else if (thread->messages == NETWORK_HANDSHAKE_CALL && !ctx->result) {
		record = network_record(network_find(sk, NETWORK_CLIENT));
		if (record)
			network_observe(&record->operations[NETWORK_CONNECT], bpf_ktime_get_ns() - thread->since);
	} else if (thread->messages != NETWORK_HANDSHAKE_SOCKET && network_is_refusal(ctx->result)) {
		network_read_peer(&peer, thread->address);
		id = network_find_peer(sk, &peer, NETWORK_CLIENT);
		if (id != NETWORK_NONE)
			network_count(id, NETWORK_FAILURES, -ctx->result);
	}
	thread->since = 0;
	return 0;
}

SEC("tracepoint")
int close_begins(struct call_begins *ctx)
{
	struct task_struct *task = network_task();
	struct network_thread *thread;
	const struct sock *sk;
	u32 id;

	if (network_is_out_of_scope(task))
		return 0;
	sk = network_sock_of_descriptor(task, ctx->arguments[0]);
	if (!sk)
		return 0;
	socket_closes(network_file_of_descriptor(task, ctx->arguments[0]), sk);
	thread = network_begin(ctx->number);
	if (!thread)
		return 0;
	id = network_find(sk, NETWORK_NO_ROLE);
	if (id == NETWORK_NONE) {
		thread->since = 0;
	} else {
		thread->series = id;
		thread->sock = (u64)sk;
	}
	return 0;
}

SEC("tracepoint")
int close_ends(struct call_ends *ctx)
{
	struct task_struct *task = network_task();
	struct network_record *record;
	struct network_thread *thread;

	thread = network_calling(task);
	if (!thread || thread->call != CALL_CLOSE)
		return 0;
	record = network_record(thread->series);
	if (record)
		network_observe(&record->operations[NETWORK_CLOSE], bpf_ktime_get_ns() - thread->since);
	thread->since = 0;
	thread->sock = 0;
	return 0;
}

/* One side has ended a connection: a request that waits for its response there will most likely get none. */
static __always_inline void connection_ends(struct sock *sk, struct network_socket *socket, int after)
{
	if (!capture_bytes || !socket || !socket->protocol || socket->protocol == NETWORK_UNPARSED)
		return;
	capture_ending(sk, socket, after);
	if (capture_answers && after != TCP_FIN_WAIT1) /* otherwise the process itself has ended it */
		capture_end_counted(sk, socket);
}

static __always_inline int state_changed(struct sock *sk, int before, int after)
{
	struct network_socket *socket;
	u64 address = (u64)sk;

	if (network_transport_of(sk) != NETWORK_TCP)
		return 0;
	if (network_has_subflows(sk)) { /* an MPTCP socket: only what it carries is captured */
		if (before == TCP_ESTABLISHED)
			connection_ends(sk, network_socket_of(sk), after);
		if (after == TCP_CLOSE && !network_may_be_read(sk, before))
			capture_end_of_socket(sk);
		return 0;
	}
	if (after == TCP_SYN_SENT || (before == TCP_LISTEN && after == TCP_SYN_RECV))
		network_unlist(sk); /* of the previous connection, or the previous socket at this address */
	if (after == TCP_SYN_SENT) {
		capture_end_of_socket(sk); /* of the previous connection of the socket */
		connecting(sk);
		return 0;
	}
	if (after == TCP_LISTEN) {
		listening(sk);
		return 0;
	}
	if (before == TCP_LISTEN && after == TCP_CLOSE) /* an accepted socket begins as a copy of its listener */
		stopped_listening(sk);
	if (before == TCP_LISTEN && after == TCP_SYN_RECV && !socket_storage) {
		bpf_map_delete_elem(&network_socket_addresses, &address); /* of the previous socket at this address */
		return 0;
	}
	socket = network_socket_of(sk);
	if (before == TCP_ESTABLISHED)
		connection_ends(sk, socket, after);
	if (socket && (after == TCP_FIN_WAIT1 || after == TCP_LAST_ACK || after == TCP_CLOSE))
		closing(sk, socket);
	if (socket && after == TCP_CLOSE)
		closed(socket);
	if (!socket && before == TCP_SYN_RECV && after == TCP_ESTABLISHED) {
		arrived(sk);
	} else if (socket && socket->connecting && after == TCP_ESTABLISHED) {
		connected(sk, socket);
	} else if (socket && socket->connecting && after == TCP_CLOSE) {
		not_connected(sk, socket);
	}
	return 0;
}

/* Runs before the state changes. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changes, struct sock *sk, int before, int after)
{
	struct network_listed_socket *listed;

	state_changed(sk, before, after);
	listed = network_listed(sk);
	if (listed)
		listed->state = after;
	return 0;
}

/*
 * Runs when a TCP socket is destroyed: it is closed, and no process refers to it. Capture ends here rather
 * than at TCP_CLOSE: a connection that was reset, or ended by both sides, may still have bytes that its
 * process reads.
 */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(socket_destroyed, struct sock *sk)
{
	u64 address = (u64)sk;

	network_unlist(sk);
	capture_end_of_socket(sk);
	uring_forget(sk);
	if (!socket_storage)
		bpf_map_delete_elem(&network_socket_addresses, &address); /* another process's socket may be there next */
	return 0;
}

static __always_inline int retransmission(struct sock *sk, struct sk_buff *skb)
{
	struct network_record *record = network_record_of(sk);
	struct tcp_skb_cb *control = (struct tcp_skb_cb *)skb->cb;

	if (record)
		__sync_fetch_and_add(&record->retransmits, BPF_CORE_READ(control, tcp_gso_segs));
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmitted, struct sock *sk, struct sk_buff *skb)
{
	return retransmission(sk, skb);
}

/* Kernels whose tracepoint has an error argument also report attempts that sent nothing. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit_tried, struct sock *sk, struct sk_buff *skb, int error)
{
	return error ? 0 : retransmission(sk, skb);
}

/* A server's SYN-ACK is sent again: the connection has no socket yet. */
SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(retransmitted_synack, struct sock *sk, struct request_sock *request)
{
	struct network_socket *socket = network_socket_of(sk);
	struct network_process who = {};
	struct network_tuple tuple = {};
	struct network_series *series;
	struct network_record *record;

	series = socket ? network_remembered(socket) : 0;
	if (!series)
		return 0;
	network_owner(&who, series);
	network_read_ends(&tuple, &request->__req_common);
	tuple.transport = NETWORK_TCP;
	tuple.sequence = BPF_CORE_READ((struct tcp_request_sock *)request, rcv_isn) + 1;
	record = network_record(network_connection(&who, &tuple, NETWORK_SERVER));
	if (record)
		__sync_fetch_and_add(&record->retransmits, 1);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(reset_sent, struct sock *sk)
{
	struct network_record *record;

	if (!sk)
		return 0; /* a reply to a packet without a socket */
	record = network_record_of(sk);
	if (record)
		__sync_fetch_and_add(&record->resets_sent, 1);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(reset_received, struct sock *sk)
{
	struct network_record *record = network_record_of(sk);

	if (record)
		__sync_fetch_and_add(&record->resets_received, 1);
	return 0;
}

/* Kernels before 5.17 give no reason. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_without_reason, struct sk_buff *skb)
{
	return drop(skb, skb->sk, 0);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped, struct sk_buff *skb, void *location, u32 reason)
{
	return drop(skb, skb->sk, reason);
}

/* Since 6.11, the tracepoint has the socket that a received packet was for. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_of_socket, struct sk_buff *skb, void *location, u32 reason, struct sock *receiver)
{
	if (receiver)
		return drop(skb, receiver, reason);
	return drop(skb, skb->sk, reason);
}

/* Runs for each report, over all sockets that have state. */
SEC("iter/bpf_sk_storage_map")
int count_socket(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct network_socket *socket = ctx->value;
	struct sock *sk = ctx->sk;

	if (socket && sk)
		count_open(sk, socket);
	return 0;
}

/* Number of the report; user space changes it before each one, and never to 0. */
volatile u32 counting_round;

/* Counts the socket of a file, unless it is listed. A socket may have several files. */
static __always_inline int count_socket_of_file(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct network_socket *socket;
	struct sock *sk;

	if (!ctx->task || !file)
		return 0;
	sk = network_sock_of_file(file);
	if (!sk)
		return 0;
	if (network_has_subflows(sk))
		sample_subflow((const struct sock *)network_tcp_of(sk));
	socket = network_socket_of(sk);
	if (!socket || socket->round == counting_round)
		return 0;
	socket->round = counting_round;
	count_open(sk, socket);
	return 0;
}

/* Counts sockets by iterating over files. User space counts those that are listed. */
SEC("iter/task_file")
int count_file(struct bpf_iter__task_file *ctx) { return count_socket_of_file(ctx); }

u32 list_round; /* of the report for which the listed sockets were counted */

/* The same, and counts listed sockets, too. Kernels before 5.13 refuse programs with a callback. */
SEC("iter/task_file")
int count_file_and_list(struct bpf_iter__task_file *ctx)
{
	if (list_round != counting_round) {
		list_round = counting_round;
		bpf_for_each_map_elem(&network_listed_sockets, count_listed, 0, 0);
	}
	return count_socket_of_file(ctx);
}

/* Runs for each open file of a process, once after the start: adopts sockets that existed before. */
SEC("iter/task_file")
int adopt_socket(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		adopt(task, file);
	return 0;
}

#endif
