/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Capture windows: the bytes of a transfer that a program copies at once. Each window is reported as a
 * segment of its own.
 */
#ifndef EBPFRECEIVER_NETWORK_WINDOW_H
#define EBPFRECEIVER_NETWORK_WINDOW_H

#include "network_call.h"

/*
 * Maximum size of a window: as much as many programs read at a time. A power of two bounds offsets for the
 * verifier.
 */
#define CAPTURE_MAX 4096
/* Size of the buffer, so that the verifier can bound sizes up to and including CAPTURE_MAX. */
#define CAPTURE_BUFFER (2 * CAPTURE_MAX)
/* Bounds a size to 1 to CAPTURE_MAX for the verifier. */
#define CAPTURE_SOME(n) ((((n) - 1) & (CAPTURE_MAX - 1)) + 1)
/* Bytes that show the protocol. */
#define CAPTURE_FIRST 16
/* Captured bytes of a transfer that begins no message. */
#define CAPTURE_NEXT 512
/* Buffers of a transfer that are read for one window. */
#define CAPTURE_VECTORS 32
/* Buffer descriptors that are read together: a read of process memory has the overhead of copying 64 bytes. */
#define VECTORS_TOGETHER 4
/* Buffers that are read for one of several windows. */
#define WINDOW_VECTORS 8

/* Captured bytes of a transfer, at most CAPTURE_MAX; 0: nothing is captured. */
volatile const u32 capture_bytes;

/*
 * Requests are parsed of this many in 2^32 connections, by struct network_socket.stream, which is random.
 * User space reduces it to keep to a limit. Datagrams are always captured.
 */
volatile u64 parsed_streams = 1ULL << 32;

/* Bytes in the ring buffer at which user space is woken. It also reads at intervals. */
volatile const u32 capture_wake = ~0U;

/* 1 from a wake-up until user space has read everything: it sets 0 before it sleeps. */
u32 capture_woken;

/* Captured segments: struct network_segment and bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} network_segments SEC(".maps");

/*
 * Connections that user space cannot parse, by struct network_socket.stream modulo the size. If another
 * connection overwrites an entry, user space refuses the connection again.
 */
#define NETWORK_REFUSED 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NETWORK_REFUSED);
	__type(key, u32);
	__type(value, u64);
} network_refused SEC(".maps");

/* Where the windows of a transfer are read from: each window continues with the buffers of the previous one. */
struct capture_cursor {
	u32 vector; /* index of the first buffer that is not skipped */
	u32 at;     /* its offset in the transfer */
	u32 failed; /* 1: memory could not be read */
	u32 unused;
};

/* Progress of a request that is counted in the kernel: see network_values.h. */
enum network_counting {
	NETWORK_NOT_COUNTED = 0,
	NETWORK_COUNTED_WAITING = 1, /* its response has not begun */
	NETWORK_COUNTED_BODY = 2,  /* its response is in progress */
};

/* A request that is counted. */
struct network_counted {
	u64 read_at; /* CLOCK_MONOTONIC, ns: of its first byte */
	u64 ended;   /* of the last known byte of its response */
	u32 set;
	u32 path;
	u32 left;    /* TCP's position after the response; without positions, remaining bytes of it */
	u8 phase;    /* enum network_counting */
	u8 is_head;
	u8 is_error;
	u8 unused;
};

/* State of the requests that a process answers on a connection: see network_paths.h. */
struct network_requests {
	u64 request;
	u32 left[2]; /* by direction, see network_paths.h */
	u32 out[2];  /* by direction: number of bytes skipped on purpose */
	u32 wrote;   /* TCP's sequence number of the next write, at the last read; 0: unknown */
	u32 from;    /* wrote when the last request was read */
	u32 current; /* index of the last request in counted; the other entry is the request before it */
	u32 counts;  /* 1: requests were counted in the kernel */
	struct network_counted counted[2];
};

/* The saved transfer: a copy for functions that are verified separately, see capture_keep(). */
struct capture_kept {
	u64 sk;
	u64 began, ended;
	u32 length;
	u32 kind;
	u32 position;
	u32 tls;
	u32 want; /* of a body: see network_body.h */
	u32 at;   /* offset of its next window */
	struct network_source from;
	struct network_socket socket;
};

/* Key of a direction of a connection. */
struct network_frames_key {
	u64 sock;
	u32 stream;
	u32 kind; /* enum network_segment_kind */
};

/*
 * State of a direction: how far HTTP/2 frames were followed, see network_http2.h, or HTTP/1 messages, see
 * network_pipeline.h.
 */
struct network_frames {
	u32 left;     /* remaining bytes of the current frame */
	u32 position; /* struct network_segment.position of the last transfer */
	u8 followed;  /* 1: the offset of the next frame is known */
	u8 data;      /* 1: the current frame is DATA */
	u8 head;      /* bytes of a frame header at the end of the last transfer */
	u8 misses;    /* consecutive transfers in which no frame was found */
	u32 stream;   /* stream identifier of the current frame */
	u64 begun[2]; /* these bytes of a header */
	u32 body;     /* HTTP/1: bytes of the current message that may still be captured */
	u32 packets;  /* segments with data that TCP had sent, or received, by the last call, if calls are exported */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_frames);
} network_frames SEC(".maps");

/* Progress within a transfer. */
struct capture_walk {
	u32 at;        /* offset of the window */
	u32 have;      /* bytes of the window in scratch */
	u32 next;      /* offset of the next header in the window */
	u32 keep;      /* bytes of the window to capture, if it ends within DATA; HTTP/1: bytes of the previous transfer before the window */
	u32 windows;   /* number of inspected windows */
	u32 lost;      /* HTTP/1: the offset of the next message is unknown */
	u64 joined[4]; /* a header that began in the previous transfer */
	struct network_frames frames;
};

/* Maximum length of a path that is compared. */
#define PATH_BYTES 64

/* In place of the number of a path: the request is to none of the set, and is counted. */
#define NETWORK_PATH_REST 0xffff

/* Key of an LPM trie: the beginning of a request target, in a set. */
struct network_path {
	u32 bits; /* significant bits of what follows */
	u32 set;
	u8 text[PATH_BYTES];
};

/* Size of the beginning of a request that shows its path, and how much of it may be in the previous transfer. */
#define FIRST_BYTES (HELD_BYTES + 80)
#define HELD_BYTES 16

/* What a request's head shows about the end of the request. */
struct capture_head {
	u32 have;      /* bytes in scratch */
	u32 at;        /* inspected bytes */
	u32 line;      /* 1: a line begins at at */
	u32 end;       /* offset of its end; 0: unknown */
	u32 lengths;   /* number of Content-Length fields */
	u32 length_at; /* offset of the last one's value */
	u32 transfer;  /* 1: it has a Transfer-Encoding */
	u32 unused;
};

/* struct iovec */
struct capture_vector {
	u64 base;
	u64 length;
};

/* The line before a chunk (RFC 9112, 7.1), as far as it was read. */
struct capture_line {
	u32 size;
	u32 digits;
	bool sized; /* its digits have ended */
};

struct capture_scratch {
	u64 users; /* of a shared slot */
	struct capture_cursor cursor;
	struct capture_kept kept;
	struct capture_walk walk;
	struct network_path path;
	struct capture_head head;
	struct capture_line line;
	u8 first[FIRST_BYTES]; /* of a possible request */
	u64 since;             /* CLOCK_MONOTONIC, ns: when its first byte was read */
	u64 path_number;       /* in which it is counted: see network_paths.h */
	u32 passing;           /* of verifier_hide() */
	struct capture_vector vectors[VECTORS_TOGETHER];
	struct network_segment segment; /* packets and rtt are those of the transfer, the rest those of the window */
	u8 data[CAPTURE_BUFFER];
};

/*
 * Returns value without the verifier knowing it. Paths that differ in it alone are merged, so that what
 * follows is verified once instead of once per path.
 */
static __always_inline u32 verifier_hide(struct capture_scratch *scratch, u32 value)
{
	volatile u32 *passing = &scratch->passing;

	*passing = value;
	return *passing;
}

/*
 * A slot for each program that transfers most: another program may preempt it (at functions always, at
 * tracepoints since Linux 6.19), but not the same one on the same CPU. See capture_slot(). They are followed
 * by shared slots for programs that may preempt each other: uprobes, and programs at functions that transfer
 * pages. See capture_share().
 */
#define CAPTURE_SLOTS 7
/* Slot of the program that captures datagrams when their call returns. */
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

/* Finds the memory of a message in the kernel. */
static __always_inline void capture_source_of_message(struct network_source *from, struct msghdr *message)
{
	struct iov_iter *iter = &message->msg_iter;
	u64 kind;

	from->base = 0;
	from->count = 0;
	from->kernel = 1;
	if (!bpf_core_field_exists(iter->iter_type)) {
		/* ITER_IOVEC is a bit, and the direction another one (include/linux/uio.h of 5.10). */
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
		return; /* io_uring continues within a buffer */
	if (bpf_core_field_exists(iter->__iov))
		from->base = (u64)BPF_CORE_READ(iter, __iov);
	else
		from->base = (u64)BPF_CORE_READ(iter, iov);
	from->count = BPF_CORE_READ(iter, nr_segs);
}

/* Finds the memory of the n-th message of a call; none if it is not in user space. */
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
 * Copies up to want bytes, at most CAPTURE_MAX, from the buffers of the saved transfer to the slot; returns
 * how many. Global, so that it is verified once: see capture_keep().
 */
__noinline int capture_read_vectors(u32 slot, u32 want)
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
		barrier_var(named); /* for verifiers up to 6.1, as the compiler would drop the bound */
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
			have &= CAPTURE_MAX - 1;
			if (n > CAPTURE_MAX || bpf_probe_read_user(scratch->data + have, n, (void *)vectors[k].base))
				return have;
			have += n;
		}
	}
	return have;
}

/* Copies up to want bytes, at most CAPTURE_MAX, to scratch; returns how many. */
static __always_inline u32 capture_copy(struct capture_scratch *scratch, u32 slot, const struct network_source *from, u32 want)
{
	if (!from->base)
		return 0;
	if (from->count) {
		scratch->kept.from = *from;
		return capture_read_vectors(slot, want);
	}
	want &= CAPTURE_BUFFER - 1;
	return bpf_probe_read_user(scratch->data, want, (void *)from->base) ? 0 : want;
}

/*
 * Copies a window of the saved transfer, up to want bytes, at most CAPTURE_MAX, from an offset on; returns
 * how many. It may be fewer, or none, although more can be read: the next window continues. The cursor is
 * zero before a transfer's first window, and offsets never decrease.
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
	want &= CAPTURE_BUFFER - 1;
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
			have &= CAPTURE_MAX - 1;
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

/*
 * Returns the slot of a program. Programs differ by direction and, at functions, by address family, except
 * those at functions that transfer pages.
 */
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

/* Writes a record of size bytes, its head included; false if it was lost. */
static __always_inline bool capture_write(struct network_segment *segment, u32 size)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	if (!capture_woken && bpf_ringbuf_query(&network_segments, BPF_RB_AVAIL_DATA) >= capture_wake) {
		capture_woken = 1;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	if (!bpf_ringbuf_output(&network_segments, segment, size, flags))
		return true;
	network_lost(NETWORK_LOST_SEGMENTS);
	if (flags == BPF_RB_FORCE_WAKEUP)
		capture_woken = 0; /* no thread was woken */
	return false;
}

/* Returns the flag in struct network_socket.lost for segments of a direction. */
static __always_inline u8 capture_loss(u32 kind) { return kind == NETWORK_SEGMENT_WRITE ? NETWORK_SEGMENT_WRITE_LOST : NETWORK_SEGMENT_LOST; }

/* Returns the losses to report with the next segment of a direction. */
static __always_inline u8 capture_losses(const struct network_socket *socket, u32 kind)
{
	u8 unknown = socket->lost & NETWORK_SEGMENT_UNKNOWN;

	return socket->lost & capture_loss(kind) ? unknown | NETWORK_SEGMENT_LOST : unknown;
}

/* Sets the members of a segment that identify its connection. */
static __always_inline void capture_identify(struct network_segment *segment, const struct sock *sk, const struct network_socket *socket)
{
	segment->sock = (u64)sk;
	segment->stream = socket->stream;
	segment->series = socket->series;
	segment->generation = socket->generation;
}

/* Reports a segment of size bytes, its head included. */
static __always_inline void capture_report(struct network_segment *segment, u32 size, struct sock *sk, struct network_socket *socket)
{
	capture_identify(segment, sk, socket);
	segment->protocol |= socket->protocol;
	segment->role = socket->role;
	segment->lost = capture_losses(socket, segment->kind);
	if (!capture_write(segment, size))
		socket->lost |= capture_loss(segment->kind);
	else if (segment->lost)
		socket->lost &= ~(NETWORK_SEGMENT_UNKNOWN | capture_loss(segment->kind));
}

/* Sets the members of a segment. */
static __always_inline void capture_describe(struct network_segment *segment, u64 began, u64 ended, u32 length, u32 kind, u32 position, u32 tls)
{
	segment->began = began;
	segment->ended = ended;
	segment->length = length;
	segment->kind = kind;
	segment->position = position;
	segment->protocol = tls ? NETWORK_TLS : 0;
}

/* Reports a whole transfer, of which scratch has the first size bytes. */
static __noinline int capture_report_whole(struct capture_scratch *scratch, const struct capture_transfer *transfer, u32 size)
{
	capture_describe(&scratch->segment, transfer->began, transfer->ended, transfer->length, transfer->kind, transfer->position, transfer->tls);
	size &= CAPTURE_BUFFER - 1;
	capture_report(&scratch->segment, sizeof(scratch->segment) + size, transfer->sk, transfer->socket);
	return 0;
}

/*
 * Saves a transfer for a global function, whose parameter is the slot. The verifier checks a global function
 * once, however often it is called. So are loops over windows, which it would otherwise explore anew for each
 * window.
 */
static __always_inline void capture_keep(struct capture_scratch *scratch, const struct capture_transfer *transfer)
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
 * Reports a window of the saved transfer: length bytes from an offset on, of which scratch has size.
 * Together, the windows of a transfer have all of its bytes, in order.
 */
static __noinline int capture_report_window(struct capture_scratch *scratch, u32 at, u32 size, u32 length)
{
	struct capture_kept *kept = &scratch->kept;
	u32 position = kept->position ? kept->position - (kept->length - at - length) : 0;

	capture_describe(&scratch->segment, kept->began, kept->ended, length, kept->kind, position, kept->tls);
	size &= CAPTURE_BUFFER - 1;
	capture_report(&scratch->segment, sizeof(scratch->segment) + size, (struct sock *)kept->sk, &kept->socket);
	return 0;
}

/* Stores changes to the socket's state of the saved transfer. */
static __always_inline void capture_restore(struct capture_scratch *scratch, struct network_socket *socket)
{
	u8 own = NETWORK_SEGMENT_UNKNOWN | capture_loss(scratch->kept.kind);

	socket->lost = (socket->lost & ~own) | (scratch->kept.socket.lost & own);
	socket->protocol = scratch->kept.socket.protocol;
}

#endif
