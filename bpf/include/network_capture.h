/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What connections carry: which protocol, by the first bytes of each transfer, and of
 * those that are known the beginning of each transfer for user space to parse. A
 * transfer that begins a message, or follows one of a few bytes, leaves the kernel up
 * to capture_bytes; of one that goes on with a message mostly its length does: see
 * network_head.h. HTTP/2 has a way of its own.
 */
#ifndef EBPFRECEIVER_NETWORK_CAPTURE_H
#define EBPFRECEIVER_NETWORK_CAPTURE_H

#include "network_beginning.h"
#include "network_body.h"
#include "network_chunks.h"
#include "network_head.h"
#include "network_http2.h"
#include "network_packets.h"
#include "network_paths.h"
#include "network_tls_record.h"
#include "network_tls.h"

/* include/linux/net.h */
#define SOCK_STREAM 1

/* The protocols that are looked for: a bit for each of enum network_protocol. */
volatile const u32 capture_protocols;

/* Of DNS the header, the number and what does not tell it left out (RFC 1035, 4.1.1). */
struct capture_dns {
	u16 id;
	u8 flags; /* response, operation, … */
	u8 code;  /* …, reserved bits and response code */
	__be16 questions, answers, authorities, others;
};

#define DNS_RESPONSE 0x80
#define DNS_OPERATION 0x78
#define DNS_RESERVED 0x40
#define DNS_CODE 0x0f
/* Its records in each section are fewer. */
#define DNS_RECORDS 256
/* And its questions. */
#define DNS_QUESTIONS 16
/* A header and the shortest question. */
#define DNS_SHORTEST 17
/*
 * Of multicast DNS (RFC 6762): whoever asks there need not be answered, and answers have
 * neither the query's number nor its question.
 */
#define MDNS_PORT 5353

static __always_inline bool capture_may_have_records(const struct capture_dns *header)
{
	return bpf_ntohs(header->answers) < DNS_RECORDS && bpf_ntohs(header->authorities) < DNS_RECORDS && bpf_ntohs(header->others) < DNS_RECORDS;
}

/*
 * A lookup, or the response to one: with one question, as almost all have, or a few. What
 * begins with other bytes by chance looks so once in millions of times.
 */
static __always_inline bool capture_is_dns(const u8 *data)
{
	const struct capture_dns *header = (const struct capture_dns *)data;

	if (header->flags & DNS_OPERATION || header->code & DNS_RESERVED || (u16)(bpf_ntohs(header->questions) - 1) >= DNS_QUESTIONS)
		return false;
	if (!(header->flags & DNS_RESPONSE) && (header->code & DNS_CODE || header->answers || header->authorities))
		return false;
	return capture_may_have_records(header);
}

/* Of TCP the length of the message comes first. */
static __always_inline bool capture_is_dns_over_tcp(const u8 *data)
{
	return bpf_ntohs(*(const __be16 *)data) >= DNS_SHORTEST && capture_is_dns(data + 2);
}

/* What begins with a transfer, of which taken bytes are known; all that are looked at can be read. */
static __always_inline u32 capture_protocol_of(const u8 *data, u32 taken, u32 length, bool stream)
{
	if (stream && capture_protocols & (1 << NETWORK_HTTP1) && taken >= HTTP1_TELLS && capture_is_http1(data))
		return NETWORK_HTTP1;
	if (stream && capture_protocols & (1 << NETWORK_HTTP2) && taken >= FRAME_HEAD &&
	    (capture_is_preface(data) || capture_is_http2_headers(data, length)))
		return NETWORK_HTTP2;
	if (!(capture_protocols & (1 << NETWORK_DNS)) || taken < CAPTURE_FIRST)
		return NETWORK_UNKNOWN;
	if (stream ? capture_is_dns_over_tcp(data) : capture_is_dns(data))
		return NETWORK_DNS;
	return NETWORK_UNKNOWN;
}

/* The other end has said that it writes no more: bit of sock_common.skc_flags (enum sock_flags of include/net/sock.h). */
#define SOCK_DONE_BIT 1

/* What was read of TCP until now. The end of it has a place in the sequence, which is read with the last byte. */
static __always_inline u32 capture_read_until(const struct sock *sk)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
	u32 until = BPF_CORE_READ(tcp, copied_seq);

	if (sk->__sk_common.skc_flags & (1UL << SOCK_DONE_BIT) && until == BPF_CORE_READ(tcp, rcv_nxt))
		until -= 1;
	return until;
}

/*
 * Where TCP is behind the piece: what was lost before it is known by that, also what
 * no program has seen. The kernel leaves programs out that were preempted.
 */
static __always_inline u32 capture_position(const struct sock *sk, u32 kind)
{
	if (sk->__sk_common.skc_family == AF_UNIX || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	return kind == NETWORK_PIECE_READ ? capture_read_until(sk) : BPF_CORE_READ((const struct tcp_sock *)sk, write_seq);
}

/* Finds out what a connection carries, as far as it can be told by the first bytes of a transfer, which begin protocol. */
static __always_inline void capture_classify(struct network_socket *socket, struct capture_transfer *transfer, struct capture_scratch *scratch, u32 slot,
					     u32 taken, u32 protocol, bool stream)
{
	const u8 *data = scratch->data;
	struct network_series *series;

	if (protocol == NETWORK_HTTP2 && socket->protocol == NETWORK_HTTP1 && capture_is_preface(data)) {
		socket->protocol = protocol; /* as was agreed on by an upgrade: the connection goes on */
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

/* How many bytes of a connection were left out on purpose that is one of HTTP/2 now. */
static __noinline u32 capture_left_out(const struct capture_transfer *transfer)
{
	struct network_frames_key key = { .sock = (u64)transfer->sk, .stream = transfer->socket->stream };
	struct network_requests *known = bpf_map_lookup_elem(&network_requests, &key);

	return known ? known->out[transfer->kind & 1] : 0;
}

/* What becomes of a transfer by who has asked for it: of enum capture_way_out. taken bytes of it are in scratch. */
static __always_inline u32 capture_way_of(struct capture_scratch *scratch, struct capture_transfer *transfer, u32 slot, u32 taken)
{
	u32 out;

	capture_put(scratch, transfer);
	scratch->kept.want = taken;
	out = transfer->kind == NETWORK_PIECE_READ ? capture_read(slot) : capture_written(slot);
	capture_put_back(scratch, transfer->socket);
	transfer->began = scratch->kept.began;
	transfer->position = scratch->kept.position;
	return out;
}

/* Nothing more is told of what the connection carried until now. */
static __noinline int capture_stops(struct sock *sk, struct network_socket *socket)
{
	struct network_piece piece = { .kind = NETWORK_PIECE_CLOSED };

	if (!capture_answers || socket->protocol != NETWORK_HTTP1 || capture_forget_requests(sk, socket)) {
		piece.began = bpf_ktime_get_ns();
		piece.ended = piece.began;
		capture_tell(&piece, sizeof(piece), sk, socket);
	}
	if (capture_answers && socket->protocol & NETWORK_TLS)
		capture_forget_requests(sk, socket); /* of what is within */
	if (socket->protocol == NETWORK_HTTP2 || socket->protocol & NETWORK_TLS || capture_limit)
		capture_forget_frames(sk, socket);
	socket->protocol = NETWORK_UNKNOWN;
	return 0;
}

/*
 * The connection is over: nothing more comes. The socket may begin another one, which has a
 * name of its own from here on: were it chosen when the protocol is found out, two threads
 * that find it out at a time would choose two.
 */
static __always_inline void capture_ends(struct sock *sk, struct network_socket *socket)
{
	capture_stops(sk, socket);
	socket->stream = bpf_get_prandom_u32();
}

/* The same of whatever a socket carries, if it does. */
static __always_inline void carries_no_more(struct sock *sk)
{
	struct network_socket *socket = network_socket_of(sk);

	if (socket && socket->protocol)
		capture_ends(sk, socket);
}

/* How much is taken of a transfer before it is known what it begins. */
static __always_inline u32 capture_first_bytes(const struct network_socket *socket, const struct capture_transfer *transfer)
{
	if (!socket->protocol)
		return CAPTURE_FIRST;
	if (socket->protocol != NETWORK_HTTP1)
		return CAPTURE_NEXT;
	if (capture_answers) /* it takes more of what it wants */
		return transfer->length <= CAPTURE_NEXT ? CAPTURE_NEXT : CAPTURE_TARGET;
	if (capture_head_state(socket, transfer->kind))
		return capture_bytes;
	return transfer->length <= CAPTURE_NEXT ? CAPTURE_NEXT : CAPTURE_CHUNK;
}

/*
 * What begins with a transfer on a connection of which nothing is known yet, the first bytes
 * of which are in scratch, or with one of HTTP/1. In place of a header of the PROXY protocol
 * what follows on it is the transfer.
 */
static __always_inline u32 capture_begins(struct capture_scratch *scratch, u32 slot, struct capture_transfer *transfer, u32 *taken, u32 known, bool stream)
{
	struct network_source *from = (struct network_source *)transfer->from;
	u32 protocol;

	if (!known && stream && *taken >= CAPTURE_FIRST && capture_may_be_proxy_header(scratch->data)) {
		capture_put(scratch, transfer);
		*taken = capture_pass_proxy_header(slot) & (CAPTURE_MOST - 1);
		transfer->length = scratch->kept.length;
		from->base = scratch->kept.from.base;
	}
	protocol = capture_protocol_of(scratch->data, *taken, transfer->length, stream);
	if (!stream || known > NETWORK_HTTP1 || protocol > NETWORK_HTTP1 || (known && protocol))
		return protocol;
	if (!protocol && (*taken == 0 || !capture_is_letter(scratch->data[0])))
		return NETWORK_UNKNOWN;
	if (!(capture_protocols & (1 << NETWORK_HTTP1)) || (!known && capture_is_no_http1(transfer->socket)))
		return NETWORK_UNKNOWN;
	if (!known && *taken < HTTP1_TELLS && !capture_answers) /* else the transfer has more */
		return capture_may_begin_http1(scratch->data, *taken) ? NETWORK_HTTP1 : NETWORK_UNKNOWN;
	if (!protocol && *taken < CAPTURE_FIRST)
		return NETWORK_UNKNOWN;
	capture_put(scratch, transfer);
	return capture_is_message(slot, *taken, protocol, known) & 1;
}

/* A socket whose plaintext this is may be gone: it is not asked. */
static __always_inline int capture_into(struct capture_scratch *scratch, struct capture_transfer *transfer, u32 slot, bool stream)
{
	struct network_socket *socket = transfer->socket;
	u32 want, taken = 0, protocol;
	bool begins = false, known = socket->protocol == NETWORK_HTTP1, asked = capture_answers && known && transfer->kind == NETWORK_PIECE_WRITE;

	if (stream && (socket->protocol == NETWORK_HTTP1 || socket->protocol == NETWORK_DNS) && capture_is_refused(socket)) {
		if (transfer->tls)
			capture_stops(transfer->sk, socket); /* it has the name of the connection that carries it */
		else
			capture_ends(transfer->sk, socket);
		capture_count_refusal(socket);
		return 0; /* the next one is looked at anew */
	}
	if (asked && capture_way_of(scratch, transfer, slot, 0) == CAPTURE_NOTHING)
		return 0;
	if (socket->protocol != NETWORK_HTTP2) {
		want = capture_first_bytes(socket, transfer);
		if (want > transfer->length)
			want = transfer->length;
		*(u64 *)scratch->data = 0;
		scratch->data[8] = 0;
		taken = capture_take(scratch, slot, transfer->from, want);
		protocol = capture_begins(scratch, slot, transfer, &taken, socket->protocol, stream);
		begins = protocol && (!socket->protocol || socket->protocol == protocol);
		capture_classify(socket, transfer, scratch, slot, taken, protocol, stream);
		if (!socket->protocol || socket->protocol & NETWORK_TLS)
			return 0;
	}
	if (capture_limit)
		capture_packets(&scratch->piece, transfer);
	if (socket->protocol == NETWORK_HTTP2) {
		if (capture_answers && known && transfer->position)
			transfer->position -= capture_left_out(transfer);
		capture_put(scratch, transfer);
		capture_frames(slot);
		capture_put_back(scratch, socket);
		socket->heads |= HEAD_FRAMES(transfer->kind);
		return 0;
	}
	if (capture_answers && !asked) {
		u32 out;

		if (!known) /* it was found out just now, by less */
			taken = capture_take(scratch, slot, transfer->from, transfer->length < CAPTURE_NEXT ? transfer->length : CAPTURE_NEXT);
		out = capture_way_of(scratch, transfer, slot, taken);
		if (out == CAPTURE_NOTHING)
			return 0;
		begins = out == CAPTURE_BEGINNING;
		want = begins || capture_head_state(socket, transfer->kind) >= HEAD_ENDS ? capture_bytes : CAPTURE_NEXT;
		taken = capture_take(scratch, slot, transfer->from, want < transfer->length ? want : transfer->length);
	}
	/* Go's server reads the first byte of a request by itself, to see whether the client has gone. */
	begins = begins || capture_head_state(socket, transfer->kind) == HEAD_TINY;
	want = capture_bytes;
	if (want > transfer->length)
		want = transfer->length;
	if (begins && taken < want)
		taken = capture_take(scratch, slot, transfer->from, want);
	else if (!begins)
		want = 0;
	capture_note_head(socket, slot, transfer->kind, transfer->length, taken, begins);
	if (capture_limit)
		want = capture_body_left(transfer, begins);
	else if (capture_answers || transfer->from->count <= CAPTURE_VECTORS)
		want = 0; /* what was not taken cannot be read; of answers no more is needed */
	if (want > taken) {
		capture_put(scratch, transfer);
		scratch->kept.want = want;
		capture_body(slot);
		capture_put_back(scratch, socket);
		return 0;
	}
	if (socket->protocol == NETWORK_HTTP1 && taken < transfer->length)
		return chunks_tell(scratch, transfer, slot, taken);
	return capture_tell_whole(scratch, transfer, taken);
}

static __noinline int capture(struct capture_transfer *transfer, u32 slot, bool stream)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);

	return scratch ? capture_into(scratch, transfer, slot, stream) : 0;
}

/* The same by a program that has no slot of its own. */
static __noinline int capture_shared(struct capture_transfer *transfer)
{
	struct capture_scratch *scratch;
	u32 i;

	for (i = 0; i < CAPTURE_SHARED_SLOTS; i++) {
		u32 slot = CAPTURE_SLOTS + i;

		scratch = bpf_map_lookup_elem(&network_scratch, &slot);
		if (!scratch)
			return 0;
		__sync_fetch_and_add(&scratch->users, 1);
		if (*(volatile u64 *)&scratch->users == 1) {
			capture_into(scratch, transfer, slot, true);
			__sync_fetch_and_add(&scratch->users, -1);
			return 0;
		}
		__sync_fetch_and_add(&scratch->users, -1);
	}
	transfer->socket->lost |= capture_loss(transfer->kind);
	network_lost(NETWORK_LOST_PIECES);
	return 0;
}

/* Sockets on which something that is known may be spoken: streams, and UDP with a peer, but for multicast DNS. */
static __always_inline bool capture_may_carry(const struct sock *sk)
{
	__be16 port = sk->__sk_common.skc_dport;

	if (sk->sk_type != SOCK_DGRAM)
		return sk->sk_type == SOCK_STREAM;
	return sk->sk_protocol == IPPROTO_UDP && port && port != bpf_htons(MDNS_PORT) && sk->__sk_common.skc_num != MDNS_PORT;
}

/* Looks at what a connection has carried; its socket and its length are known. Pages are moved by streams alone. */
static __always_inline void capture_stream(struct capture_transfer *transfer, bool pages)
{
	struct sock *sk = transfer->sk;

	if (!(transfer->socket->protocol & NETWORK_TLS) && (transfer->from->base || transfer->socket->protocol)) {
		transfer->position = capture_position(sk, transfer->kind);
		if (pages)
			capture_shared(transfer);
		else
			capture(transfer, capture_slot(sk, transfer->kind), sk->sk_type == SOCK_STREAM);
	}
	if (transfer->socket->protocol & NETWORK_TLS)
		network_tls_moved(sk, transfer->socket, transfer->kind);
}

/* A transfer was counted and timed: now its connection is looked at, and what it carried. */
static __always_inline void capture_transfer(struct network_record *record, struct capture_transfer *transfer, s64 result, int flags, bool pages)
{
	struct sock *sk = transfer->sk;

	network_look_at_rtt(record, sk, transfer->socket, transfer->ended);
	if (!capture_bytes || result <= 0 || flags & MSG_PEEK || !capture_may_carry(sk) || (pages && sk->sk_type != SOCK_STREAM))
		return;
	if (!transfer->socket)
		transfer->socket = network_socket_of(sk); /* it was met just now */
	if (!transfer->socket)
		return;
	transfer->length = result;
	capture_stream(transfer, pages);
}

#endif
