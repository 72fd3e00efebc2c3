// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The network below requests: who talks to whom, how much, how fast. All is added up
 * in the kernel (include/network.h).
 *
 * Hooks: what is sent and received is seen at tp_btf sock_send_length and
 * sock_recv_length (6.3), which know the socket, and timed from the tracepoints of the
 * system calls; or where the kernel has trampolines at fentry and fexit of the
 * functions behind all of these calls, io_uring's too. Connections begin and end at
 * tp_btf inet_sock_set_state; what they carry ends at tp_btf tcp_destroy_sock.
 * Kernels: 5.10 and newer.
 */
#include "include/network_adopt.h"
#include "include/network_answers.h"
#include "include/network_drop.h"
#include "include/network_function.h"
#include "include/network_life.h"
#include "include/network_message.h"
#include "include/network_tls_functions.h"

#include <bpf/bpf_tracing.h>

/* Keep these types in the BTF, from which the Go types are made. */
const struct network_series *unused_network_series __attribute__((unused));
const struct network_record *unused_network_record __attribute__((unused));
const struct network_histogram *unused_network_histogram __attribute__((unused));
const struct network_listener *unused_network_listener __attribute__((unused));
const struct network_socket *unused_network_socket __attribute__((unused));
const struct network_count_key *unused_network_count_key __attribute__((unused));
const enum network_role *unused_network_role __attribute__((unused));
const enum network_transport *unused_network_transport __attribute__((unused));
const enum network_operation *unused_network_operation __attribute__((unused));
const enum network_wait *unused_network_wait __attribute__((unused));
const enum network_count_kind *unused_network_count_kind __attribute__((unused));
const enum network_drop *unused_network_drop __attribute__((unused));
const enum network_walk *unused_network_walk __attribute__((unused));
const enum network_loss *unused_network_loss __attribute__((unused));
const struct network_piece *unused_network_piece __attribute__((unused));
const enum network_protocol *unused_network_protocol __attribute__((unused));
const enum network_piece_loss *unused_network_piece_loss __attribute__((unused));
const enum network_piece_gap *unused_network_piece_gap __attribute__((unused));
const enum network_tls_function *unused_network_tls_function __attribute__((unused));
const struct network_path *unused_network_path __attribute__((unused));
const enum network_piece_kind *unused_network_piece_kind __attribute__((unused));
const struct network_value_key *unused_network_value_key __attribute__((unused));
const struct network_value *unused_network_value __attribute__((unused));

/* What programs at the tracepoints of system calls are given. */
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

/* A call begins that may transfer. */
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

/* The same where nothing but requests is wanted that processes answer. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(answers_sent, struct sock *sk, int result, int flags)
{
	return answers_transferred(sk, result, NETWORK_WRITE, 0);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(answers_received, struct sock *sk, int result, int flags)
{
	return answers_transferred(sk, result, NETWORK_READ, flags);
}

/*
 * Where there are trampolines, the functions behind all calls tell more for less:
 * fentry and fexit of inet_sendmsg and its kin. The loader attaches a copy of these
 * programs to each.
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

SEC("fexit/inet_sendmsg")
int BPF_PROG(answers_function_sent, struct socket *socket, struct msghdr *message, u64 size, int result)
{
	return answers_moved(socket, result, NETWORK_WRITE, 0, false);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(answers_function_received, struct socket *socket, struct msghdr *message, u64 size, int flags, int result)
{
	return answers_moved(socket, result, NETWORK_READ, flags, false);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(answers_function_spliced, struct socket *socket, void *position, void *pipe, u64 size, u32 flags, s64 result)
{
	return answers_moved(socket, result, NETWORK_READ, 0, true);
}

/* Of sockets of packets in sequence there is a function of its own, of which this one may be a part or not. */
SEC("fexit/unix_dgram_recvmsg")
int BPF_PROG(datagram_received, struct socket *socket, struct msghdr *message, u64 size, int flags, int result)
{
	return socket->sk->sk_type == SOCK_SEQPACKET ? 0 : moved(socket, message, result, NETWORK_READ, flags, false);
}

/* Up to 6.4 files are sent by their pages. */
SEC("fexit/inet_sendpage")
int BPF_PROG(function_sent_page, struct socket *socket, void *page, int offset, u64 size, int flags, s64 result)
{
	return moved(socket, 0, result, NETWORK_WRITE, 0, true);
}

SEC("fexit/inet_sendpage")
int BPF_PROG(answers_function_sent_page, struct socket *socket, void *page, int offset, u64 size, int flags, s64 result)
{
	return answers_moved(socket, result, NETWORK_WRITE, 0, true);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(function_spliced, struct socket *socket, void *position, void *pipe, u64 size, u32 flags, s64 result)
{
	return moved(socket, 0, result, NETWORK_READ, 0, true);
}

/* A Unix socket goes, whoever held it last. */
SEC("fentry/unix_release")
int BPF_PROG(unix_ends, struct socket *socket)
{
	struct sock *sk = socket->sk;
	struct network_socket *known;

	if (!sk)
		return 0;
	known = network_socket_of(sk);
	if (known && known->protocol)
		capture_ends(sk, known);
	return 0;
}

/* recvfrom, recvmsg and recvmmsg return. */
SEC("tracepoint")
int receive_ends(struct call_ends *ctx)
{
	return received_datagrams(ctx->result);
}

/* splice returns: what it took from a socket no tracepoint tells. */
SEC("tracepoint")
int splice_ends(struct call_ends *ctx)
{
	return spliced(ctx->result);
}

/* accept or connect begins. */
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
		thread->messages = NETWORK_HANDSHAKE_SOCKET; /* connect() asks for the result of an earlier one */
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

/* Of TCP the handshake is what counts, and what kept it from beginning. */
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

	if (network_is_outside(task))
		return 0;
	sk = network_sock_of_descriptor(task, ctx->arguments[0]);
	if (!sk)
		return 0;
	if (unix_by_close && unix_is_stream(sk))
		unix_closes(network_file_of_descriptor(task, ctx->arguments[0]), sk);
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

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state_changes, struct sock *sk, int before, int after)
{
	struct network_socket *socket;
	u64 address = (u64)sk;

	if (network_transport_of(sk) != NETWORK_TCP)
		return 0;
	if (network_has_subflows(sk)) { /* it carries what processes say, and that alone */
		if (after == TCP_CLOSE && !network_may_be_read(sk, before))
			carries_no_more(sk);
		return 0;
	}
	if (after == TCP_SYN_SENT) {
		carries_no_more(sk); /* of the connection that it had before */
		connecting(sk);
		return 0;
	}
	if (after == TCP_LISTEN) {
		listening(sk);
		return 0;
	}
	if (before == TCP_LISTEN && after == TCP_CLOSE) /* a child begins as a copy of its listener */
		listening_no_more(sk);
	if (before == TCP_LISTEN && after == TCP_SYN_RECV && !socket_storage) {
		bpf_map_delete_elem(&network_socket_addresses, &address); /* of the socket that was there before */
		return 0;
	}
	socket = network_socket_of(sk);
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

/*
 * A socket of TCP goes: it is closed, and by now nobody has it any more. What it carried
 * ends here and no sooner: a connection that is closed for the kernel may have been reset, or ended
 * by both sides, with bytes that its process reads then, or is about to return with.
 */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(socket_goes, struct sock *sk)
{
	carries_no_more(sk);
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

/* Kernels that say why it failed tell of attempts that sent nothing, too. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit_tried, struct sock *sk, struct sk_buff *skb, int error)
{
	return error ? 0 : retransmission(sk, skb);
}

/* A server's answer to a SYN is sent again: the connection has no socket yet. */
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
		return 0; /* an answer to nobody's packet */
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

/* Before 5.17 the kernel gives no reason. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_somehow, struct sk_buff *skb)
{
	return drop(skb, skb->sk, 0);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped, struct sk_buff *skb, void *location, u32 reason)
{
	return drop(skb, skb->sk, reason);
}

/* Since 6.11 it says what socket a received packet was for. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_of_socket, struct sk_buff *skb, void *location, u32 reason, struct sock *receiver)
{
	if (receiver)
		return drop(skb, receiver, reason);
	return drop(skb, skb->sk, reason);
}

/* For each report, over all sockets that are remembered. */
SEC("iter/bpf_sk_storage_map")
int count_socket(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct network_socket *socket = ctx->value;
	struct sock *sk = ctx->sk;

	if (socket && sk)
		count_open(sk, socket);
	return 0;
}

/* Another one for each report, by user space; never 0. */
volatile u32 counting_round;

/* The same over all files, where sockets have no storage; a socket may have several files. */
SEC("iter/task_file")
int count_file(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct network_socket *socket;
	struct sock *sk;

	if (!ctx->task || !file)
		return 0;
	sk = network_sock_of_file(file);
	if (!sk)
		return 0;
	socket = network_socket_of(sk);
	if (!socket || socket->round == counting_round)
		return 0;
	socket->round = counting_round;
	count_open(sk, socket);
	return 0;
}

/* For each file that a process has open, once after the start: sockets from before. */
SEC("iter/task_file")
int adopt_socket(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		adopt(task, file);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
