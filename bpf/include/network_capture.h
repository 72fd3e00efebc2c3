/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What connections carry: which protocol, by the first bytes of each transfer, and of
 * those that are known the beginning of each transfer for user space to parse. A
 * transfer that begins a message, or follows one of a few bytes, leaves the kernel up
 * to capture_bytes, one that goes on with a message up to CAPTURE_NEXT: its length is
 * what counts then.
 */
#ifndef EBPFRECEIVER_NETWORK_CAPTURE_H
#define EBPFRECEIVER_NETWORK_CAPTURE_H

#include "network_call.h"

/* The most that is taken of one transfer, and one more: a power of two tells the verifier. */
#define CAPTURE_MOST 4096
/* Of one that begins no message. */
#define CAPTURE_NEXT 512
/* What a protocol is known by. */
#define CAPTURE_FIRST 16
/* Pieces of memory that one call may name and that are looked at. */
#define CAPTURE_VECTORS 32

/* include/linux/net.h */
#define SOCK_STREAM 1
#define SOCK_DGRAM 2

/* How much is taken of a transfer, less than CAPTURE_MOST; 0: requests are not looked at. */
volatile const u32 capture_bytes;

/* The protocols that are looked for: a bit for each of enum network_protocol. */
volatile const u32 capture_protocols;

/* User space is woken when so many bytes wait; it looks on its own now and then. */
volatile const u32 capture_wake = ~0U;

/* 1 while it was woken and has not read all yet: it clears this when nothing is left, before it sleeps. */
u32 capture_woken;

struct capture_scratch {
	struct network_piece piece;
	u8 data[2 * CAPTURE_MOST];
};

/*
 * One for each program that may use it: from 6.19 on another one may run while this
 * one is preempted, but not the same on the same CPU. See capture_slot().
 */
#define CAPTURE_SLOTS 6

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CAPTURE_SLOTS);
	__type(key, u32);
	__type(value, struct capture_scratch);
} network_scratch SEC(".maps");

/* struct iovec */
struct capture_vector {
	u64 base;
	u64 length;
};

/* What a transfer was; its call and where the bytes are the thread knows. */
struct capture_transfer {
	struct sock *sk;
	struct network_socket *socket;
	const struct network_thread *thread;
	u64 ended;
	u32 length;
	u32 kind;
};

/* user_msghdr.msg_iov and msg_iovlen */
#define MSG_IOV_OFFSET 16
#define MSG_IOVLEN_OFFSET 24

/* What a function of the kernel was given, whose message names the memory. */
static __always_inline void capture_source_of_message(struct network_source *from, struct msghdr *message)
{
	struct iov_iter *iter = &message->msg_iter;
	u64 kind;

	from->base = 0;
	from->count = 0;
	from->kernel = 1;
	if (!bpf_core_field_exists(iter->iter_type)) {
		/* ITER_IOVEC is a bit of its own, and the direction another (include/linux/uio.h of 5.10). */
		if (!(BPF_CORE_READ(iter, type) & 4))
			return;
	} else {
		kind = BPF_CORE_READ(iter, iter_type);
		if (bpf_core_enum_value_exists(enum iter_type, ITER_UBUF) && kind == bpf_core_enum_value(enum iter_type, ITER_UBUF)) {
			from->base = (u64)BPF_CORE_READ(iter, ubuf) + BPF_CORE_READ(iter, iov_offset);
			return;
		}
		if (kind != bpf_core_enum_value(enum iter_type, ITER_IOVEC))
			return;
	}
	if (BPF_CORE_READ(iter, iov_offset))
		return; /* of io_uring, when it goes on with a buffer */
	if (bpf_core_field_exists(iter->__iov))
		from->base = (u64)BPF_CORE_READ(iter, __iov);
	else
		from->base = (u64)BPF_CORE_READ(iter, iov);
	from->count = BPF_CORE_READ(iter, nr_segs);
}

/* What the n-th message of a call was given; nothing where it has no memory of its own. */
static __always_inline void capture_source_of(struct network_source *from, struct pt_regs *saved, u32 call, u32 n)
{
	u64 at = network_argument_1(saved), count = 0;

	*from = (struct network_source){};
	switch (call) {
	case CALL_READ:
	case CALL_WRITE:
	case CALL_SENDTO:
	case CALL_RECVFROM:
		from->base = at;
		return;
	case CALL_READV:
	case CALL_WRITEV:
		from->base = at;
		from->count = network_argument_2(saved);
		return;
	case CALL_SENDMMSG:
	case CALL_RECVMMSG:
		at += (u64)n * MMSG_BYTES;
		break;
	case CALL_SENDMSG:
	case CALL_RECVMSG:
		break;
	default:
		return;
	}
	bpf_probe_read_user(&from->base, sizeof(from->base), (void *)(at + MSG_IOV_OFFSET));
	bpf_probe_read_user(&count, sizeof(count), (void *)(at + MSG_IOVLEN_OFFSET));
	from->count = count;
}

/* Takes up to want bytes, less than CAPTURE_MOST; returns how many could be read. */
static __noinline u32 capture_take(struct capture_scratch *scratch, const struct network_source *from, u32 want)
{
	struct capture_vector vector = {};
	u32 have = 0, n, i;
	long err;

	if (!from->base)
		return 0;
	if (!from->count) {
		want &= CAPTURE_MOST - 1;
		return bpf_probe_read_user(scratch->data, want, (void *)from->base) ? 0 : want;
	}
	for (i = 0; i < CAPTURE_VECTORS; i++) {
		if (i >= from->count || have >= want)
			break;
		if (from->kernel)
			err = bpf_probe_read_kernel(&vector, sizeof(vector), (void *)(from->base + i * sizeof(vector)));
		else
			err = bpf_probe_read_user(&vector, sizeof(vector), (void *)(from->base + i * sizeof(vector)));
		if (err)
			break;
		n = want - have;
		if (n > vector.length)
			n = vector.length;
		n &= CAPTURE_MOST - 1;
		have &= CAPTURE_MOST - 1;
		if (bpf_probe_read_user(scratch->data + have, n, (void *)vector.base))
			break;
		have += n;
	}
	return have;
}

#define WORD(a, b, c, d) ((u32)(a) | (u32)(b) << 8 | (u32)(c) << 16 | (u32)(d) << 24)

/* A method of HTTP/1 and a blank, or the beginning of a response (RFC 9112, 3 and 4). */
static __always_inline bool capture_is_http1(const u8 *data)
{
	u32 first = *(const u32 *)data, second = *(const u32 *)(data + 4);

	switch (first) {
	case WORD('G', 'E', 'T', ' '):
	case WORD('P', 'U', 'T', ' '):
		return true;
	case WORD('P', 'O', 'S', 'T'):
	case WORD('H', 'E', 'A', 'D'):
		return (u8)second == ' ';
	case WORD('H', 'T', 'T', 'P'):
		return (second & 0xffffff) == WORD('/', '1', '.', 0);
	case WORD('P', 'A', 'T', 'C'):
		return (second & 0xffff) == WORD('H', ' ', 0, 0);
	case WORD('T', 'R', 'A', 'C'):
		return (second & 0xffff) == WORD('E', ' ', 0, 0);
	case WORD('D', 'E', 'L', 'E'):
		return (second & 0xffffff) == WORD('T', 'E', ' ', 0);
	case WORD('O', 'P', 'T', 'I'):
		return second == WORD('O', 'N', 'S', ' ');
	case WORD('C', 'O', 'N', 'N'):
		return second == WORD('E', 'C', 'T', ' ');
	}
	return false;
}

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
/* A header and the shortest question. */
#define DNS_SHORTEST 17

/*
 * A lookup, or the response to one: with one question, as all have. What begins with
 * other bytes by chance looks so once in millions of times.
 */
static __always_inline bool capture_is_dns(const u8 *data)
{
	const struct capture_dns *header = (const struct capture_dns *)data;

	if (header->flags & DNS_OPERATION || header->code & DNS_RESERVED || header->questions != bpf_htons(1))
		return false;
	if (!(header->flags & DNS_RESPONSE) && (header->code & DNS_CODE || header->answers || header->authorities))
		return false;
	return bpf_ntohs(header->answers) < DNS_RECORDS && bpf_ntohs(header->authorities) < DNS_RECORDS && bpf_ntohs(header->others) < DNS_RECORDS;
}

/* Of TCP the length of the message comes first. */
static __always_inline bool capture_is_dns_over_tcp(const u8 *data)
{
	return bpf_ntohs(*(const __be16 *)data) >= DNS_SHORTEST && capture_is_dns(data + 2);
}

/* What begins with a transfer, of which taken bytes are known; all that are looked at can be read. */
static __always_inline u32 capture_protocol_of(const u8 *data, u32 taken, bool stream)
{
	if (stream && capture_protocols & (1 << NETWORK_HTTP1) && taken >= 8 && capture_is_http1(data))
		return NETWORK_HTTP1;
	if (!(capture_protocols & (1 << NETWORK_DNS)) || taken < CAPTURE_FIRST)
		return NETWORK_UNKNOWN;
	if (stream ? capture_is_dns_over_tcp(data) : capture_is_dns(data))
		return NETWORK_DNS;
	return NETWORK_UNKNOWN;
}

/* The other end has said that it writes no more: bit of sock_common.skc_flags (enum sock_flags of include/net/sock.h). */
#define SOCK_DONE_BIT 1

/* What was read of TCP until now. The end of it has a place in the sequence, which is read with the last byte. */
static __always_inline u32 capture_read_until(struct tcp_sock *tcp)
{
	u32 until = BPF_CORE_READ(tcp, copied_seq);

	if (BPF_CORE_READ((struct sock *)tcp, __sk_common.skc_flags) & (1UL << SOCK_DONE_BIT) && until == BPF_CORE_READ(tcp, rcv_nxt))
		until -= 1;
	return until;
}

/*
 * Where TCP is behind the piece: what was lost before it is known by that, also what
 * no program has seen. The kernel leaves programs out that were preempted.
 */
static __always_inline u32 capture_position(struct sock *sk, u32 kind)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;

	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	return kind == NETWORK_PIECE_READ ? capture_read_until(tcp) : BPF_CORE_READ(tcp, write_seq);
}

/* Programs differ by direction and, where they are at functions, by family. */
static __always_inline u32 capture_slot(const struct sock *sk, u32 kind)
{
	switch (BPF_CORE_READ(sk, __sk_common.skc_family)) {
	case AF_INET:
		return kind & 1;
	case AF_INET6:
		return 2 + (kind & 1);
	}
	return 4 + (kind & 1);
}

/* Tells user space of a piece, size bytes with its head. */
static __always_inline void capture_tell(struct network_piece *piece, u32 size, struct sock *sk, struct network_socket *socket)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	if (!capture_woken && bpf_ringbuf_query(&network_pieces, BPF_RB_AVAIL_DATA) >= capture_wake) {
		capture_woken = 1;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	piece->sock = (u64)sk;
	piece->stream = socket->stream;
	piece->series = socket->series;
	piece->generation = socket->generation;
	piece->protocol = socket->protocol;
	piece->role = socket->role;
	piece->lost = socket->lost;
	piece->position = capture_position(sk, piece->kind);
	if (bpf_ringbuf_output(&network_pieces, piece, size, flags)) {
		socket->lost = 1;
		network_lost(NETWORK_LOST_PIECES);
		if (flags == BPF_RB_FORCE_WAKEUP)
			capture_woken = 0; /* nobody was */
	} else {
		socket->lost = 0;
	}
}

static __noinline int capture(struct capture_transfer *transfer)
{
	const struct network_thread *thread = transfer->thread;
	struct network_socket *socket = transfer->socket;
	struct capture_scratch *scratch;
	struct sock *sk = transfer->sk;
	u32 slot = capture_slot(sk, transfer->kind), want, taken, protocol;
	bool begins;

	scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	if (!scratch)
		return 0;
	want = socket->protocol ? CAPTURE_NEXT : CAPTURE_FIRST;
	if (want > transfer->length)
		want = transfer->length;
	taken = capture_take(scratch, &thread->source, want);
	protocol = capture_protocol_of(scratch->data, taken, BPF_CORE_READ(sk, sk_type) == SOCK_STREAM);
	begins = protocol && (!socket->protocol || socket->protocol == protocol);
	if (begins && !socket->protocol) {
		socket->protocol = protocol;
		socket->stream = bpf_get_prandom_u32();
	}
	if (!socket->protocol)
		return 0;
	want = capture_bytes;
	if (want > transfer->length)
		want = transfer->length;
	/* Go's server reads the first byte of a request by itself, to see whether the client has gone. */
	if ((begins || socket->tiny & (1 << transfer->kind)) && taken < want)
		taken = capture_take(scratch, &thread->source, want);
	if (transfer->length < CAPTURE_FIRST)
		socket->tiny |= 1 << transfer->kind;
	else
		socket->tiny &= ~(1 << transfer->kind);
	scratch->piece.began = thread->since;
	scratch->piece.ended = transfer->ended;
	scratch->piece.length = transfer->length;
	scratch->piece.kind = transfer->kind;
	taken &= CAPTURE_MOST - 1;
	capture_tell(&scratch->piece, sizeof(scratch->piece) + taken, sk, socket);
	return 0;
}

/* Sockets on which something that is known may be spoken: streams, and UDP with a peer. */
static __always_inline bool capture_may_carry(struct sock *sk)
{
	u32 type = BPF_CORE_READ(sk, sk_type);

	return type == SOCK_STREAM || (type == SOCK_DGRAM && BPF_CORE_READ(sk, sk_protocol) == IPPROTO_UDP && sk->__sk_common.skc_dport);
}

/* A transfer was counted and timed: now its connection is looked at, and what it carried. */
static __always_inline void capture_transfer(struct network_record *record, struct capture_transfer *transfer, s64 result, int flags)
{
	struct sock *sk = transfer->sk;

	network_look_at_rtt(record, sk, transfer->socket, transfer->ended);
	if (!capture_bytes || result <= 0 || flags & MSG_PEEK || !capture_may_carry(sk))
		return;
	if (!transfer->socket)
		transfer->socket = network_socket_of(sk); /* it was met just now */
	transfer->length = result;
	if (transfer->socket && (transfer->thread->source.base || transfer->socket->protocol))
		capture(transfer);
}

/* The connection is over: nothing more comes. */
static __noinline int capture_ends(struct sock *sk, struct network_socket *socket)
{
	struct network_piece piece = { .kind = NETWORK_PIECE_CLOSED };

	piece.began = bpf_ktime_get_ns();
	piece.ended = piece.began;
	capture_tell(&piece, sizeof(piece), sk, socket);
	socket->protocol = NETWORK_UNKNOWN;
	return 0;
}

#endif
