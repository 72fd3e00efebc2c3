/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Capture: the first bytes of each transfer show the protocol of a connection. Of a recognised one, the
 * beginning of each transfer is written to user space, which parses it. A transfer that begins a message, or
 * follows one of a few bytes, is captured up to capture_bytes. Of one that continues a message mostly the
 * length is captured: see network_head.h. HTTP/2 has its own rules: see network_http2.h.
 */
#ifndef EBPFRECEIVER_NETWORK_CAPTURE_H
#define EBPFRECEIVER_NETWORK_CAPTURE_H

#include "network_body.h"
#include "network_chunks.h"
#include "network_head.h"
#include "network_http2_frames.h"
#include "network_packets.h"
#include "network_paths.h"
#include "network_pipeline.h"
#include "network_protocols.h"
#include "network_proxy.h"
#include "network_tls_record.h"
#include "network_tls.h"

/* include/linux/net.h */
#define SOCK_STREAM 1

/* Bit of sock_common.skc_flags (enum sock_flags of include/net/sock.h): the remote side sends no more. */
#define SOCK_DONE_BIT 1

/*
 * Returns the sequence number up to which the process has read. A FIN has a sequence number of its own, which
 * is read with the last byte.
 */
static __always_inline u32 capture_read_until(const struct sock *sk)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
	u32 until = BPF_CORE_READ(tcp, copied_seq);

	if (sk->__sk_common.skc_flags & (1UL << SOCK_DONE_BIT) && until == BPF_CORE_READ(tcp, rcv_nxt))
		until -= 1;
	return until;
}

/*
 * Returns the TCP sequence number after a segment. It shows losses before it, including transfers for which
 * no program ran: the kernel skips a program that is preempted.
 */
static __always_inline u32 capture_position(const struct sock *sk, u32 kind)
{
	if (sk->__sk_common.skc_family == AF_UNIX || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	return kind == NETWORK_SEGMENT_READ ? capture_read_until(sk) : BPF_CORE_READ((const struct tcp_sock *)sk, write_seq);
}

/* Stops following the messages of a connection. */
static __noinline int capture_unfollow(struct sock *sk, struct network_socket *socket)
{
	if (capture_head_state(socket, NETWORK_SEGMENT_READ) == HEAD_FOLLOWED || capture_head_state(socket, NETWORK_SEGMENT_WRITE) == HEAD_FOLLOWED)
		capture_forget_frames(sk, socket);
	return 0;
}

/* Sets the protocol of a connection by the first bytes of a transfer, which begin a message of protocol. */
static __always_inline void capture_classify(struct network_socket *socket, struct capture_transfer *transfer, struct capture_scratch *scratch, u32 slot,
					     u32 taken, u32 protocol, bool stream)
{
	const u8 *data = scratch->data;
	struct network_series *series;

	if (protocol == NETWORK_HTTP2 && socket->protocol == NETWORK_HTTP1 && capture_is_preface(data)) {
		capture_unfollow(transfer->sk, socket);
		socket->protocol = protocol; /* after an upgrade: the connection continues */
		socket->heads &= ~HEADS_MASK;
		return;
	}
	if (protocol) {
		if (!socket->protocol) {
			socket->protocol = protocol;
			socket->heads &= ~HEADS_MASK;
		}
	} else if (stream && !transfer->tls && capture_begins_tls(scratch, slot, transfer, taken)) {
		if (socket->protocol)
			socket->stream = bpf_get_prandom_u32();
		socket->protocol = NETWORK_TLS;
		series = network_remembered(socket);
		if (series)
			series->tls = 1;
	}
}

/* Returns how many bytes of an HTTP/2 connection were skipped on purpose before it was recognised. */
static __noinline u32 capture_skipped_bytes(const struct capture_transfer *transfer)
{
	struct network_frames_key key = { .sock = (u64)transfer->sk, .stream = transfer->socket->stream };
	struct network_requests *known = bpf_map_lookup_elem(&network_requests, &key);

	return known ? known->out[transfer->kind & 1] : 0;
}

/*
 * Decides about a transfer by the filter of requests; returns enum capture_decision. The scratch has taken
 * bytes of it.
 */
static __always_inline u32 capture_decide(struct capture_scratch *scratch, struct capture_transfer *transfer, u32 slot, u32 taken)
{
	u32 out;

	capture_keep(scratch, transfer);
	scratch->kept.want = taken;
	out = transfer->kind == NETWORK_SEGMENT_READ ? capture_read(slot) : capture_written(slot);
	capture_restore(scratch, transfer->socket);
	transfer->began = scratch->kept.began;
	transfer->position = scratch->kept.position;
	return out;
}

/* include/net/sock.h: both directions are shut down */
#define SHUTDOWN_MASK 3
/* include/uapi/asm-generic/errno.h */
#define ETIMEDOUT 110
/* include/linux/sched.h: the thread is exiting */
#define PF_EXITING 0x4

/*
 * Returns which side has ended a Unix socket: the remote one if both directions were shut down before this
 * one was closed.
 */
static __always_inline u32 capture_end_of_unix(const struct sock *sk)
{
	if (BPF_CORE_READ(sk, sk_shutdown) == SHUTDOWN_MASK)
		return NETWORK_END_REMOTE;
	return TASK_READ(network_task(), flags) & PF_EXITING ? NETWORK_END_UNKNOWN : NETWORK_END_LOCAL;
}

/*
 * Reports which side has ended a TCP connection, by the state after TCP_ESTABLISHED. A process that shuts
 * down only its sending direction has not ended it: NETWORK_SEGMENT_CLOSED follows. A process that exits has
 * not decided to give up.
 */
static __always_inline bool capture_end_of_tcp(const struct sock *sk, int state, u32 *end)
{
	int error, soft;

	if (state == TCP_CLOSE_WAIT) {
		*end = NETWORK_END_REMOTE;
		return true;
	}
	if (state == TCP_CLOSE) {
		error = BPF_CORE_READ(sk, sk_err);
		if (error) { /* of a timeout, it is the last error that the network reported, if any: see tcp_write_err() */
			soft = BPF_CORE_READ(sk, sk_err_soft);
			*end = error == ETIMEDOUT || error == soft ? NETWORK_END_TIMEOUT : NETWORK_END_REMOTE;
			return true;
		}
	} else if (state != TCP_FIN_WAIT1 || BPF_CORE_READ(sk, sk_shutdown) != SHUTDOWN_MASK) {
		return false;
	}
	*end = TASK_READ(network_task(), flags) & PF_EXITING ? NETWORK_END_UNKNOWN : NETWORK_END_LOCAL;
	return true;
}

/* Reports that one side has ended a captured connection. Losses before it are reported with the next transfer. */
static __noinline int capture_ending(struct sock *sk, struct network_socket *socket, int state)
{
	struct network_segment segment = { .kind = NETWORK_SEGMENT_ENDING };
	u32 end;

	if (!capture_end_of_tcp(sk, state, &end))
		return 0;
	capture_identify(&segment, sk, socket);
	segment.began = bpf_ktime_get_ns();
	segment.ended = segment.began;
	segment.protocol = socket->protocol;
	segment.role = socket->role;
	segment.position = end;
	capture_write(&segment, sizeof(segment));
	return 0;
}

/* The protocol of a connection may be recognised after it was ended, as received bytes are read later. */
static __always_inline void capture_has_ended(struct sock *sk, struct network_socket *socket)
{
	u8 state = network_state_of(sk);

	if (state == TCP_CLOSE_WAIT || state == TCP_CLOSE)
		capture_ending(sk, socket, state);
}

/*
 * Reports whether requests of a connection are not parsed: its random stream number is outside of the share
 * that is.
 */
static __always_inline bool capture_is_unparsed(const struct network_socket *socket) { return socket->stream >= parsed_streams; }

/*
 * Reports that requests of a connection are not parsed. protocol is NETWORK_UNKNOWN if it is not known. If
 * the ring buffer is full the next request tries again.
 */
static __noinline int capture_report_unparsed(struct network_segment *segment, struct sock *sk, struct network_socket *socket, u32 protocol)
{
	capture_identify(segment, sk, socket);
	segment->began = bpf_ktime_get_ns();
	segment->ended = segment->began;
	segment->length = 0;
	segment->kind = NETWORK_SEGMENT_UNPARSED;
	segment->protocol = protocol;
	segment->lost = NETWORK_SEGMENT_NONE_LOST;
	segment->position = 0;
	if (capture_write(segment, sizeof(*segment)))
		socket->heads |= HEAD_UNPARSED_REPORTED;
	return 0;
}

/*
 * Reports whether to skip a transfer that begins a protocol, because requests of its connection are not
 * parsed. Two threads may recognise the protocol at once: a client's response may be read before the call
 * that sent the request returns. Requests are sent or read by one thread at a time, so the report is made
 * with a request: nothing else writes socket->heads then.
 */
static __noinline int capture_skips_new(struct capture_scratch *scratch, const struct capture_transfer *transfer, u32 protocol)
{
	struct network_socket *socket = transfer->socket;

	if (!protocol || (socket->protocol && socket->protocol != NETWORK_UNPARSED) || !capture_is_unparsed(socket))
		return 0;
	socket->protocol = NETWORK_UNPARSED;
	if (capture_is_to_server(socket, transfer->kind))
		capture_report_unparsed(&scratch->segment, transfer->sk, socket, protocol);
	return 1;
}

/* Ends the capture of what a connection has carried up to now. */
static __noinline int capture_stop(struct sock *sk, struct network_socket *socket)
{
	struct network_segment segment = { .kind = NETWORK_SEGMENT_CLOSED };

	if (socket->protocol == NETWORK_UNPARSED) {
		if (!(socket->heads & HEAD_UNPARSED_REPORTED))
			capture_report_unparsed(&segment, sk, socket, NETWORK_UNKNOWN);
		socket->heads &= ~HEADS_MASK;
		socket->protocol = NETWORK_UNKNOWN;
		return 0;
	}
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX)
		segment.position = capture_end_of_unix(sk);

	if (!capture_answers || socket->protocol != NETWORK_HTTP1 || capture_forget_requests(sk, socket)) {
		segment.began = bpf_ktime_get_ns();
		segment.ended = segment.began;
		capture_report(&segment, sizeof(segment), sk, socket);
	}
	if (capture_answers && socket->protocol & NETWORK_TLS)
		capture_forget_requests(sk, socket); /* of the plaintext */
	if (socket->protocol == NETWORK_HTTP2 || socket->protocol & NETWORK_TLS || capture_limit)
		capture_forget_frames(sk, socket);
	else if (socket->protocol == NETWORK_HTTP1)
		capture_unfollow(sk, socket);
	socket->protocol = NETWORK_UNKNOWN;
	return 0;
}

/*
 * Ends the capture of a connection. The socket may begin another one, which gets its stream number here. If
 * the number were chosen when the protocol is recognised, two threads that do so concurrently would choose
 * different ones.
 */
static __always_inline void capture_end(struct sock *sk, struct network_socket *socket)
{
	capture_stop(sk, socket);
	socket->stream = bpf_get_prandom_u32();
}

/* Ends the capture of a socket's connection, if it is captured. */
static __always_inline void capture_end_of_socket(struct sock *sk)
{
	struct network_socket *socket = network_socket_of(sk);

	if (socket && socket->protocol)
		capture_end(sk, socket);
}

/* If user space has refused the connection, inspects the next transfer as of a new one. */
static __always_inline bool capture_restart_if_refused(const struct capture_transfer *transfer)
{
	struct network_socket *socket = transfer->socket;

	if ((socket->protocol != NETWORK_HTTP1 && socket->protocol != NETWORK_DNS) || !capture_is_refused(socket))
		return false;
	capture_stop(transfer->sk, socket);
	if (!transfer->tls) /* plaintext has the stream number of the connection that carries it */
		socket->stream = bpf_get_prandom_u32();
	capture_count_refusal(socket);
	return true;
}

/* Stops parsing requests of a connection. User space counts what was in progress. */
static __always_inline void capture_stop_parsing(const struct capture_transfer *transfer)
{
	struct network_socket *socket = transfer->socket;

	if (socket->protocol == NETWORK_HTTP2 || capture_limit)
		capture_forget_frames(transfer->sk, socket);
	else if (socket->protocol == NETWORK_HTTP1)
		capture_unfollow(transfer->sk, socket);
	socket->protocol = NETWORK_UNPARSED;
	socket->heads &= ~HEADS_MASK;
}

/*
 * Reports whether to skip a transfer on a stream, because requests of its connection are not parsed. This is
 * decided anew with each transfer to the server.
 */
static __noinline int capture_skips(struct capture_scratch *scratch, const struct capture_transfer *transfer)
{
	struct network_socket *socket = transfer->socket;
	u32 protocol = socket->protocol;

	if (!protocol)
		return 0;
	if (!capture_is_to_server(socket, transfer->kind))
		return protocol == NETWORK_UNPARSED;
	if (capture_is_unparsed(socket)) {
		if (protocol != NETWORK_UNPARSED)
			capture_stop_parsing(transfer);
		if (!(socket->heads & HEAD_UNPARSED_REPORTED))
			capture_report_unparsed(&scratch->segment, transfer->sk, socket, protocol & ~NETWORK_UNPARSED);
		return 1;
	}
	if (protocol == NETWORK_UNPARSED) { /* the share has grown */
		socket->heads &= ~HEADS_MASK;
		socket->protocol = NETWORK_UNKNOWN;
	}
	return 0;
}

/* Returns how much of a transfer is copied before it is known whether it begins a message. */
static __always_inline u32 capture_first_bytes(const struct network_socket *socket, const struct capture_transfer *transfer)
{
	if (!socket->protocol)
		return CAPTURE_FIRST; /* it shows the protocol */
	if (socket->protocol == NETWORK_HTTP1) {
		if (capture_answers && capture_head_state(socket, transfer->kind) != HEAD_FOLLOWED) /* the filter copies more of what it needs */
			return transfer->length <= CAPTURE_NEXT ? CAPTURE_NEXT : CAPTURE_TARGET;
		if (capture_head_state(socket, transfer->kind) != HEAD_PASSED)
			return capture_bytes;
	}
	return capture_part(socket->protocol, transfer->length);
}

/* Reports whether a protocol is known and not HTTP/1. */
static __always_inline bool capture_is_other_than_http1(u32 protocol) { return protocol != NETWORK_UNKNOWN && protocol != NETWORK_HTTP1; }

/*
 * Recognises what begins with a transfer, the first bytes of which are in scratch, on a connection that
 * carries HTTP/1 or an unknown protocol. A PROXY protocol header is skipped.
 */
static __always_inline u32 capture_begins(struct capture_scratch *scratch, u32 slot, struct capture_transfer *transfer, u32 *taken, u32 known, bool stream)
{
	struct network_source *from = (struct network_source *)transfer->from;
	u32 protocol;

	if (!known && stream && *taken >= CAPTURE_FIRST && capture_may_be_proxy_header(scratch->data)) {
		capture_keep(scratch, transfer);
		*taken = capture_pass_proxy_header(slot) & (CAPTURE_MAX - 1);
		transfer->length = scratch->kept.length;
		from->base = scratch->kept.from.base;
	}
	protocol = capture_protocol_of(scratch->data, *taken, transfer->length, stream);
	if (!stream || (known && protocol) || capture_is_other_than_http1(known | protocol)) /* one of them is NETWORK_UNKNOWN, which is 0 */
		return protocol;
	if (!protocol && (*taken == 0 || !capture_is_letter(scratch->data[0])))
		return NETWORK_UNKNOWN;
	if (!(capture_protocols & (1 << NETWORK_HTTP1)) || (!known && capture_is_no_http1(transfer->socket)))
		return NETWORK_UNKNOWN;
	if (!known && *taken < HTTP1_SHORTEST && !capture_answers) /* otherwise the transfer has more */
		return capture_may_begin_http1(scratch->data, *taken) ? NETWORK_HTTP1 : NETWORK_UNKNOWN;
	if (!protocol && *taken < CAPTURE_FIRST)
		return NETWORK_UNKNOWN;
	capture_keep(scratch, transfer);
	return (capture_is_message(slot, *taken, protocol, known) & 1) * NETWORK_HTTP1; /* else NETWORK_UNKNOWN, without a branch for the verifier */
}

/* Reports whether all of a connection is captured although requests are filtered: see network_paths.h. */
static __noinline int capture_is_unfiltered(const struct capture_transfer *transfer)
{
	struct network_frames_key key = { .sock = (u64)transfer->sk, .stream = transfer->socket->stream };
	struct network_requests *known = bpf_map_lookup_elem(&network_requests, &key);

	return known && (known->request & NETWORK_REQUEST_ALL || known->left[NETWORK_WRITE] & PIPELINED);
}

/*
 * Follows the HTTP/1 messages of a transfer, of which scratch has taken bytes, if its direction is followed
 * or it may have several messages. Returns whether the transfer was reported.
 */
static __noinline int capture_pipeline(struct capture_scratch *scratch, u32 slot, struct capture_transfer *transfer, u32 taken, bool begins)
{
	struct network_socket *socket = transfer->socket;
	u32 result, state = capture_head_state(socket, transfer->kind ^ 1) == HEAD_FOLLOWED;
	bool followed;

	if (capture_head_state(socket, transfer->kind) != HEAD_FOLLOWED && !(begins && (state || pipeline_may_fill(transfer->length))))
		return false;
	if (capture_answers && !capture_is_unfiltered(transfer))
		return false;
	capture_keep(scratch, transfer);
	scratch->kept.want = taken;
	result = pipeline_transfer(slot, begins, state);
	socket = transfer->socket;
	capture_restore(scratch, socket);
	followed = capture_head_state(socket, transfer->kind) == HEAD_FOLLOWED;
	state = HEAD_PASSED;
	if (result == PIPELINE_REPORTED)
		state = HEAD_FOLLOWED;
	else if (result == PIPELINE_CONTINUES)
		state = capture_is_to_server(socket, transfer->kind) ? HEAD_LASTS : HEAD_GOES_ON;
	if (result != PIPELINE_NOT_REPORTED || followed)
		capture_set_head_state(socket, transfer->kind, state);
	return result != PIPELINE_NOT_REPORTED;
}

/* Captures a transfer. Of plaintext the socket may be freed, and is not read. */
static __always_inline int capture_into(struct capture_scratch *scratch, struct capture_transfer *transfer, u32 slot, bool stream)
{
	struct network_socket *socket = transfer->socket;
	u32 known = verifier_hide(scratch, socket->protocol == NETWORK_HTTP1), begins = 0, want, taken = 0, protocol;
	bool asked = capture_answers && known && transfer->kind == NETWORK_SEGMENT_WRITE;

	if (stream && !capture_answers && verifier_hide(scratch, capture_skips(scratch, transfer)))
		return 0;
	if (stream && capture_restart_if_refused(transfer))
		return 0;
	if (asked && capture_decide(scratch, transfer, slot, 0) == CAPTURE_SKIP)
		return 0;
	if (socket->protocol != NETWORK_HTTP2) {
		want = capture_first_bytes(socket, transfer);
		if (want > transfer->length)
			want = transfer->length;
		*(u64 *)scratch->data = 0;
		scratch->data[8] = 0;
		taken = capture_copy(scratch, slot, transfer->from, want);
		protocol = capture_begins(scratch, slot, transfer, &taken, socket->protocol, stream);
		protocol = verifier_hide(scratch, protocol);
		taken = verifier_hide(scratch, taken);
		if (stream && !capture_answers && verifier_hide(scratch, capture_skips_new(scratch, transfer, protocol)))
			return 0;
		begins = verifier_hide(scratch, protocol && (!socket->protocol || socket->protocol == protocol));
		capture_classify(socket, transfer, scratch, slot, taken, protocol, stream);
		if (!socket->protocol || socket->protocol & NETWORK_TLS)
			return 0;
	}
	if (capture_limit)
		capture_packets(&scratch->segment, transfer);
	if (socket->protocol == NETWORK_HTTP2) {
		if (capture_answers && known && transfer->position)
			transfer->position -= capture_skipped_bytes(transfer);
		capture_keep(scratch, transfer);
		capture_frames(slot);
		capture_restore(scratch, socket);
		socket->heads |= HEAD_FRAMES(transfer->kind);
		return 0;
	}
	if (capture_answers && !asked) {
		u32 out;

		if (!known) /* recognised by this transfer, from fewer bytes */
			taken = capture_copy(scratch, slot, transfer->from, transfer->length < CAPTURE_NEXT ? transfer->length : CAPTURE_NEXT);
		out = capture_decide(scratch, transfer, slot, taken);
		if (out == CAPTURE_SKIP)
			return 0;
		begins = out == CAPTURE_BEGINNING;
		want = begins || capture_head_continues(capture_head_state(socket, transfer->kind)) ? capture_bytes : CAPTURE_NEXT;
		taken = capture_copy(scratch, slot, transfer->from, want < transfer->length ? want : transfer->length);
	}
	/* Go's server reads the first byte of a request separately, to detect that the client has closed. */
	begins = verifier_hide(scratch, begins || capture_head_state(socket, transfer->kind) == HEAD_TINY);
	want = capture_beginning(socket->protocol);
	if (want > transfer->length)
		want = transfer->length;
	want = verifier_hide(scratch, want);
	if (begins && taken < want)
		taken = capture_copy(scratch, slot, transfer->from, want);
	else if (!begins)
		want = 0;
	taken = verifier_hide(scratch, taken);
	if (socket->protocol == NETWORK_HTTP1 && capture_pipeline(scratch, slot, transfer, taken, begins))
		return 0;
	capture_note_head(socket, slot, transfer->kind, transfer->length, taken, begins);
	if (capture_limit)
		want = capture_body_left(transfer, begins);
	else if (capture_answers || transfer->from->count <= CAPTURE_VECTORS)
		want = 0; /* the rest cannot be read; the filter of answers needs no more */
	if (want > taken) {
		capture_keep(scratch, transfer);
		scratch->kept.want = want;
		capture_body(slot);
		capture_restore(scratch, socket);
		return 0;
	}
	if (socket->protocol == NETWORK_HTTP1 && taken < transfer->length)
		return chunks_report(scratch, transfer, slot, taken);
	return capture_report_whole(scratch, transfer, taken);
}

static __noinline int capture(struct capture_transfer *transfer, u32 slot, bool stream)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);

	return scratch ? capture_into(scratch, transfer, verifier_hide(scratch, slot), stream) : 0;
}

/* Acquires a free shared slot for the caller; 0: all are in use. */
static __always_inline struct capture_scratch *capture_share(u32 *slot)
{
	struct capture_scratch *scratch;
	u32 i;

	for (i = 0; i < CAPTURE_SHARED_SLOTS; i++) {
		*slot = CAPTURE_SLOTS + i;
		scratch = bpf_map_lookup_elem(&network_scratch, slot);
		if (!scratch)
			return 0;
		__sync_fetch_and_add(&scratch->users, 1);
		if (*(volatile u64 *)&scratch->users == 1)
			return scratch;
		__sync_fetch_and_add(&scratch->users, -1);
	}
	return 0;
}

/* Captures a transfer in a shared slot, for programs that have no slot of their own. */
static __noinline int capture_shared(struct capture_transfer *transfer)
{
	struct capture_scratch *scratch;
	u32 slot;

	scratch = capture_share(&slot);
	if (!scratch) {
		transfer->socket->lost |= capture_loss(transfer->kind);
		network_lost(NETWORK_LOST_SEGMENTS);
		return 0;
	}
	slot = verifier_hide(scratch, slot);
	capture_into(scratch, transfer, slot, true);
	__sync_fetch_and_add(&scratch->users, -1);
	return 0;
}

/*
 * Reports whether a socket may carry a protocol that is recognised: a stream, or UDP with a peer, except
 * multicast DNS.
 */
static __always_inline bool capture_may_carry(const struct sock *sk)
{
	__be16 port = sk->__sk_common.skc_dport;

	if (sk->sk_type != SOCK_DGRAM)
		return sk->sk_type == SOCK_STREAM;
	return sk->sk_protocol == IPPROTO_UDP && port && port != bpf_htons(MDNS_PORT) && sk->__sk_common.skc_num != MDNS_PORT;
}

/*
 * Reports that TLS was recognised outside of any call of an attached library: the library may be attached to
 * late, and requests missed.
 */
static __noinline int capture_report_tls(struct sock *sk, struct network_socket *socket)
{
	struct network_segment segment = { .kind = NETWORK_SEGMENT_TLS_BEGINS };

	capture_identify(&segment, sk, socket);
	segment.began = bpf_ktime_get_ns();
	segment.ended = segment.began;
	capture_write(&segment, sizeof(segment));
	return 0;
}

/* Completes the inspection of a transfer; was is the protocol before it. A separate function, for its stack. */
static __noinline int capture_inspected(const struct capture_transfer *transfer, u32 was)
{
	struct network_socket *socket = transfer->socket;
	struct sock *sk = transfer->sk;

	if (!was && socket->protocol && socket->protocol != NETWORK_UNPARSED && sk->sk_type == SOCK_STREAM)
		capture_has_ended(sk, socket);
	if (!(socket->protocol & NETWORK_TLS))
		return 0;
	network_tls_moved(sk, socket, transfer->kind);
	if (!(was & NETWORK_TLS) && !(socket->protocol & NETWORK_TLS_OPEN))
		capture_report_tls(sk, socket);
	return 0;
}

/* Captures a transfer whose socket state and length are known. Only streams transfer pages. */
static __always_inline void capture_stream(struct capture_transfer *transfer, bool pages)
{
	volatile u8 *carried = &transfer->socket->protocol; /* read again for the condition below: otherwise the verifier explores what follows once per outcome */
	u8 was = *carried, now = *carried;
	struct sock *sk = transfer->sk;

	if (!(now & NETWORK_TLS) && (transfer->from->base || now)) {
		transfer->position = capture_position(sk, transfer->kind);
		if (pages)
			capture_shared(transfer);
		else
			capture(transfer, capture_slot(sk, transfer->kind), sk->sk_type == SOCK_STREAM);
	}
	capture_inspected(transfer, was);
}

/* Samples the round-trip time and captures a transfer that was counted and timed. */
static __always_inline void capture_transfer(struct network_record *record, struct capture_transfer *transfer, s64 result, int flags, bool pages)
{
	struct sock *sk = transfer->sk;

	network_sample_rtt(record, sk, transfer->socket, transfer->ended);
	if (!capture_bytes || result <= 0 || flags & MSG_PEEK || !capture_may_carry(sk) || (pages && sk->sk_type != SOCK_STREAM))
		return;
	if (!transfer->socket)
		transfer->socket = network_socket_of(sk); /* created by this call */
	if (!transfer->socket)
		return;
	transfer->length = result;
	capture_stream(transfer, pages);
}

#endif
