/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What leaves the kernel of a transfer: one window or several, each of which user space
 * is told of as a piece of its own.
 */
#ifndef EBPFRECEIVER_NETWORK_WINDOW_H
#define EBPFRECEIVER_NETWORK_WINDOW_H

#include "network_call.h"

/* The most that is taken of one transfer: as much as many programs read at a time. A power of two tells the verifier where in it a byte is. */
#define CAPTURE_MOST 4096
/* And what it lies in: as sizes that may be CAPTURE_MOST the verifier knows those below this. */
#define CAPTURE_ROOM (2 * CAPTURE_MOST)
/* A size from 1 to CAPTURE_MOST, of which the verifier knows that then, too. */
#define CAPTURE_SOME(n) ((((n) - 1) & (CAPTURE_MOST - 1)) + 1)
/* What a protocol is known by. */
#define CAPTURE_FIRST 16
/* Of one that begins no message. */
#define CAPTURE_NEXT 512
/* Pieces of memory that one call may name and that are looked at. */
#define CAPTURE_VECTORS 32
/* That many are looked up together: each look at the memory of a process takes as long as 64 bytes of it do. */
#define VECTORS_TOGETHER 4
/* And of them in one of several windows. */
#define WINDOW_VECTORS 8

/* How much is taken of a transfer, CAPTURE_MOST at most; 0: requests are not looked at. */
volatile const u32 capture_bytes;

/* User space is woken when so many bytes wait; it looks on its own now and then. */
volatile const u32 capture_wake = ~0U;

/* 1 while it was woken and has not read all yet: it clears this when nothing is left, before it sleeps. */
u32 capture_woken;

/*
 * Where the windows of a transfer are taken from: windows that follow each other need
 * not look for their memory from the beginning.
 */
struct capture_cursor {
	u32 vector; /* of struct network_source, the first that is not passed over */
	u32 at;     /* where it begins in the transfer */
	u32 failed; /* 1: memory could not be read */
	u32 unused;
};

/* How far a request has come that is counted in the kernel: see network_values.h. */
enum network_counting {
	NETWORK_NOT_COUNTED = 0,
	NETWORK_COUNTED_ASKED = 1, /* nothing was seen of its response */
	NETWORK_COUNTED_BODY = 2,  /* its response goes on */
};

/* One that is not told, but counted. */
struct network_counted {
	u64 read_at; /* CLOCK_MONOTONIC, ns: its first byte */
	u64 ended;   /* and what was seen last of its response */
	u32 set;
	u32 path;
	u32 left;    /* where TCP is behind the response; where that is not known, bytes of it to come */
	u8 phase;    /* enum network_counting */
	u8 is_head;
	u8 is_error;
	u8 unused;
};

/* How far the requests of a connection were followed that a process answers: see network_paths.h. */
struct network_requests {
	u64 request;
	u32 left[2]; /* by direction: see there */
	u32 out[2];  /* by direction: bytes that were left out on purpose */
	u32 wrote;   /* TCP's sequence number of what is written next, when something was read last; 0: not known */
	u32 from;    /* the same when the last request was read */
	u32 current; /* which of the following the last request has; the one before it the other */
	u32 counts;  /* 1: requests were counted in the kernel */
	struct network_counted counted[2];
};

/* What a transfer was. */
struct capture_transfer {
	struct sock *sk;
	struct network_socket *socket;
	const struct network_source *from; /* its base is 0 where the bytes are not known */
	u64 began, ended;
	u32 length;
	u32 kind;
	u32 position; /* of piece */
	u32 tls;      /* 1: it is what a TLS library has encrypted or decrypted */
};

/* A transfer as functions find it that are verified by themselves: see capture_put(). */
struct capture_kept {
	u64 sk;
	u64 began, ended;
	u32 length;
	u32 kind;
	u32 position;
	u32 tls;
	u32 want; /* of a body: see network_body.h */
	u32 at;   /* where its next window begins */
	struct network_source from;
	struct network_socket socket;
};

/* A direction of a connection. */
struct network_frames_key {
	u64 sock;
	u32 stream;
	u32 kind; /* enum network_piece_kind */
};

/* How far frames of HTTP/2 were followed in one direction of a connection: see network_http2.h. */
struct network_frames {
	u32 left;     /* bytes to come of the content of the frame under way */
	u32 position; /* of struct network_piece, of the last transfer */
	u8 followed;  /* 1: it is known where the next frame begins */
	u8 data;      /* 1: the frame under way is DATA */
	u8 head;      /* bytes of a frame's head with which the last transfer ended */
	u8 astray;    /* transfers in which no frame was found, one after the other */
	u32 stream;   /* of the frame under way */
	u64 begun[2]; /* those bytes of a head, and whatever follows */
	u32 body;     /* of HTTP/1 instead of all this: bytes that may leave the kernel of the message under way */
	u32 packets;  /* of both: segments with data that TCP had sent, or received, by the last call, where calls are told */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_frames);
} network_frames SEC(".maps");

/* The same within a transfer. */
struct capture_walk {
	u32 at;        /* where the window begins in it */
	u32 have;      /* bytes of it that are in scratch */
	u32 next;      /* where the next head begins, seen from the window's beginning */
	u32 keep;      /* bytes of the window that count, if it ends within DATA */
	u32 windows;   /* that were looked at */
	u32 unused;
	u64 joined[4]; /* a head of which the beginning came before */
	struct network_frames frames;
};

/* Bytes of a path that are compared. */
#define PATH_BYTES 64

/* In place of the number of a path: the request is to none of the set, and counts all the same. */
#define NETWORK_PATH_REST 0xffff

/* A beginning of a request's target, of a set; as keys of tries are. */
struct network_path {
	u32 bits; /* of what follows that count */
	u32 set;
	u8 text[PATH_BYTES];
};

/* What is looked at of a transfer that may begin a request, to see to which path, and what of it may come before. */
#define FIRST_BYTES (HELD_BYTES + 80)
#define HELD_BYTES 16

/* What a request's head says of where the request ends. */
struct capture_head {
	u32 have;      /* bytes of it that are in scratch */
	u32 at;        /* that were looked at */
	u32 line;      /* 1: a line begins there */
	u32 end;       /* where it ends; 0: not known */
	u32 lengths;   /* how often it says how long its content is */
	u32 length_at; /* and where, the last time */
	u32 transfer;  /* 1: the content says itself where it ends */
	u32 unused;
};

/* struct iovec */
struct capture_vector {
	u64 base;
	u64 length;
};

struct capture_scratch {
	u64 users; /* of one that is shared */
	struct capture_cursor cursor;
	struct capture_kept kept;
	struct capture_walk walk;
	struct network_path path;
	struct capture_head head;
	u8 first[FIRST_BYTES]; /* of what may be a request */
	u64 since;             /* CLOCK_MONOTONIC, ns: when its first byte was read */
	u64 path_number;       /* by which it is counted: see network_paths.h */
	struct capture_vector vectors[VECTORS_TOGETHER];
	struct network_piece piece; /* packets and rtt are the transfer's, the rest the window's */
	u8 data[CAPTURE_ROOM];
};

/*
 * One for each program that moves most: another one may run while this one is preempted
 * (at functions always, at tracepoints from 6.19 on), but not the same on the same CPU. See
 * capture_slot(). Behind them those that others share, which may be preempted by each other: programs
 * in processes, for TLS, and at functions that move pages. Who finds nobody else there has it.
 */
#define CAPTURE_SLOTS 7
/* Of the program that tells of datagrams when their call returns. */
#define CAPTURE_SLOT_RETURNS 6
#define CAPTURE_SHARED_SLOTS 4

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CAPTURE_SLOTS + CAPTURE_SHARED_SLOTS);
	__type(key, u32);
	__type(value, struct capture_scratch);
} network_scratch SEC(".maps");

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

/*
 * Takes up to want bytes, CAPTURE_MOST at most, from the pieces of memory that are kept in
 * the slot; returns how many could be read. Verified by itself: see capture_put().
 */
__noinline int capture_take_pieces(u32 slot, u32 want)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 have = 0, named, size, n, i, k;
	struct capture_vector *vectors;
	void *place;
	long err;

	if (!scratch)
		return 0;
	vectors = scratch->vectors;
	for (i = 0; i < CAPTURE_VECTORS; i += VECTORS_TOGETHER) {
		if (i >= scratch->kept.from.count || have >= want)
			break;
		named = scratch->kept.from.count - i;
		if (named > VECTORS_TOGETHER)
			named = VECTORS_TOGETHER;
		barrier_var(named); /* the compiler knows it now, verifiers up to 6.1 want to be shown */
		size = (((named - 1) & (VECTORS_TOGETHER - 1)) + 1) * sizeof(vectors[0]);
		place = (void *)(scratch->kept.from.base + i * sizeof(vectors[0]));
		if (scratch->kept.from.kernel)
			err = bpf_probe_read_kernel(vectors, size, place);
		else
			err = bpf_probe_read_user(vectors, size, place);
		if (err)
			break;
		for (k = 0; k < VECTORS_TOGETHER; k++) {
			if (k >= named || have >= want)
				return have;
			n = want - have;
			if (n > vectors[k].length)
				n = vectors[k].length;
			have &= CAPTURE_MOST - 1;
			if (n > CAPTURE_MOST || bpf_probe_read_user(scratch->data + have, n, (void *)vectors[k].base))
				return have;
			have += n;
		}
	}
	return have;
}

/* Takes up to want bytes, CAPTURE_MOST at most, into the slot's scratch; returns how many could be read. */
static __always_inline u32 capture_take(struct capture_scratch *scratch, u32 slot, const struct network_source *from, u32 want)
{
	if (!from->base)
		return 0;
	if (from->count) {
		scratch->kept.from = *from;
		return capture_take_pieces(slot, want);
	}
	want &= CAPTURE_ROOM - 1;
	return bpf_probe_read_user(scratch->data, want, (void *)from->base) ? 0 : want;
}

/*
 * Takes a window of the transfer that is kept, up to want bytes, CAPTURE_MOST at
 * most, from where it is at; returns how many it got. That may be fewer, and none, also where more
 * can be read: the next one goes on. The cursor is zeroed before a transfer's first window,
 * and windows do not go back.
 */
__noinline int capture_window(u32 slot, u32 at, u32 want)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 vectors, begins, have = 0, skip, n, i;
	struct capture_vector vector = {};
	struct network_source *from;
	struct capture_cursor *cursor;
	long err;

	if (!scratch)
		return 0;
	cursor = &scratch->cursor;
	from = &scratch->kept.from;
	vectors = cursor->vector;
	begins = cursor->at;
	if (!from->base) {
		cursor->failed = 1;
		return 0;
	}
	want &= CAPTURE_ROOM - 1;
	if (!from->count) {
		cursor->failed = bpf_probe_read_user(scratch->data, want, (void *)(from->base + at)) != 0;
		return cursor->failed ? 0 : want;
	}
	for (i = 0; i < WINDOW_VECTORS && have < want; i++) {
		u64 place = from->base + (u64)vectors * sizeof(vector);

		if (from->kernel)
			err = bpf_probe_read_kernel(&vector, sizeof(vector), (void *)place);
		else
			err = bpf_probe_read_user(&vector, sizeof(vector), (void *)place);
		if (err || vectors >= from->count) {
			cursor->failed = 1;
			break;
		}
		skip = at + have - begins;
		if (vector.length > skip) {
			n = want - have;
			if (n > vector.length - skip)
				n = vector.length - skip;
			n = CAPTURE_SOME(n);
			have &= CAPTURE_MOST - 1;
			if (bpf_probe_read_user(scratch->data + have, n, (void *)(vector.base + skip))) {
				cursor->failed = 1;
				break;
			}
			have += n;
			skip += n;
		}
		if (vector.length > skip)
			break; /* the window is full */
		vectors += 1;
		begins += vector.length;
		if (!have) {
			cursor->vector = vectors;
			cursor->at = begins;
		}
	}
	return have;
}

/* Programs differ by direction and, where they are at functions, by family; not those at functions that move pages. */
static __always_inline u32 capture_slot(const struct sock *sk, u32 kind)
{
	switch (sk->__sk_common.skc_family) {
	case AF_INET:
		return kind & 1;
	case AF_INET6:
		return 2 + (kind & 1);
	}
	return 4 + (kind & 1);
}

/* Writes a piece for user space, size bytes with its head; false where it was lost. */
static __always_inline bool capture_write(struct network_piece *piece, u32 size)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	if (!capture_woken && bpf_ringbuf_query(&network_pieces, BPF_RB_AVAIL_DATA) >= capture_wake) {
		capture_woken = 1;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	if (!bpf_ringbuf_output(&network_pieces, piece, size, flags))
		return true;
	network_lost(NETWORK_LOST_PIECES);
	if (flags == BPF_RB_FORCE_WAKEUP)
		capture_woken = 0; /* nobody was */
	return false;
}

/* What struct network_socket.lost has of pieces of a direction that were lost, of enum network_piece_loss. */
static __always_inline u8 capture_loss(u32 kind) { return kind == NETWORK_PIECE_WRITE ? NETWORK_PIECE_WRITE_LOST : NETWORK_PIECE_LOST; }

/* What the next piece of a direction has to say of it. */
static __always_inline u8 capture_losses(const struct network_socket *socket, u32 kind)
{
	u8 unknown = socket->lost & NETWORK_PIECE_UNKNOWN;

	return socket->lost & capture_loss(kind) ? unknown | NETWORK_PIECE_LOST : unknown;
}

/* Tells user space of a piece, size bytes with its head. */
static __always_inline void capture_tell(struct network_piece *piece, u32 size, struct sock *sk, struct network_socket *socket)
{
	piece->sock = (u64)sk;
	piece->stream = socket->stream;
	piece->series = socket->series;
	piece->generation = socket->generation;
	piece->protocol |= socket->protocol;
	piece->role = socket->role;
	piece->lost = capture_losses(socket, piece->kind);
	if (!capture_write(piece, size))
		socket->lost |= capture_loss(piece->kind);
	else if (piece->lost)
		socket->lost &= ~(NETWORK_PIECE_UNKNOWN | capture_loss(piece->kind));
}

/* What a piece says of itself. */
static __always_inline void capture_describe(struct network_piece *piece, u64 began, u64 ended, u32 length, u32 kind, u32 position, u32 tls)
{
	piece->began = began;
	piece->ended = ended;
	piece->length = length;
	piece->kind = kind;
	piece->position = position;
	piece->protocol = tls ? NETWORK_TLS : 0;
}

/* Tells of a whole transfer, of which the first size bytes are in scratch. */
static __noinline int capture_tell_whole(struct capture_scratch *scratch, const struct capture_transfer *transfer, u32 size)
{
	capture_describe(&scratch->piece, transfer->began, transfer->ended, transfer->length, transfer->kind, transfer->position, transfer->tls);
	size &= CAPTURE_ROOM - 1;
	capture_tell(&scratch->piece, sizeof(scratch->piece) + size, transfer->sk, transfer->socket);
	return 0;
}

/*
 * Keeps a transfer for a function that is given the slot alone. Such a function is
 * verified by itself, wherever and however often it is called: so are loops over windows,
 * with each of which the verifier would begin anew otherwise.
 */
static __always_inline void capture_put(struct capture_scratch *scratch, const struct capture_transfer *transfer)
{
	scratch->kept.sk = (u64)transfer->sk;
	scratch->kept.began = transfer->began;
	scratch->kept.ended = transfer->ended;
	scratch->kept.length = transfer->length;
	scratch->kept.kind = transfer->kind;
	scratch->kept.position = transfer->position;
	scratch->kept.tls = transfer->tls;
	scratch->kept.from = *transfer->from;
	scratch->kept.socket = *transfer->socket;
}

/*
 * Tells of a window of the transfer that is kept: that it had length bytes from where it
 * is at, size of which are in scratch. Together the windows of a transfer have all of its
 * bytes, in their order.
 */
static __noinline int capture_tell_window(struct capture_scratch *scratch, u32 at, u32 size, u32 length)
{
	struct capture_kept *kept = &scratch->kept;
	u32 position = kept->position ? kept->position - (kept->length - at - length) : 0;

	capture_describe(&scratch->piece, kept->began, kept->ended, length, kept->kind, position, kept->tls);
	size &= CAPTURE_ROOM - 1;
	capture_tell(&scratch->piece, sizeof(scratch->piece) + size, (struct sock *)kept->sk, &kept->socket);
	return 0;
}

/* Gives back what has become of a socket whose transfer was kept. */
static __always_inline void capture_put_back(struct capture_scratch *scratch, struct network_socket *socket)
{
	u8 own = NETWORK_PIECE_UNKNOWN | capture_loss(scratch->kept.kind);

	socket->lost = (socket->lost & ~own) | (scratch->kept.socket.lost & own);
	socket->protocol = scratch->kept.socket.protocol;
}

#endif
