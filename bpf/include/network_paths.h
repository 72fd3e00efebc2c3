/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The filter of HTTP/1 requests if only those that processes answer are needed, optionally those to certain
 * paths. Only these requests and their responses are captured.
 *
 * Each transfer that a process reads begins a request or continues the previous one; the length of the
 * content shows where the next one begins. A write answers the request that was last read before it. If this
 * is ambiguous, the transfer is captured: heads in several transfers, and all of a connection whose requests
 * are pipelined. A request that was skipped before such a request is reported as a request record, which user
 * space pairs with its response.
 */
#ifndef EBPFRECEIVER_NETWORK_PATHS_H
#define EBPFRECEIVER_NETWORK_PATHS_H

#include "network_http1.h"
#include "network_values.h"

/*
 * Only requests that processes answer are captured; for processes with a set of paths, only those to these
 * paths.
 */
volatile const bool capture_answers;

/* Flags in the number of a set: requests to none of its paths are counted; the set has no paths. */
#define PATHS_REST (1U << 31)
#define PATHS_NONE (1U << 30)
#define PATHS_SET (PATHS_NONE - 1)

/*
 * What the filter does with a request. Any other value is the number of the path in which the request is
 * counted, see network_values.h.
 */
#define PATH_LEFT_OUT 0
#define PATH_REPORTED 0x10000

/* The set of paths of a process: its number and flags, by process id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by user space, as in the next map */
	__type(key, u32);
	__type(value, u32);
} network_path_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct network_path);
	__type(value, u32); /* PATH_REPORTED, or a number */
} network_paths SEC(".maps");

/* The first bytes of a request whose path is in more than one transfer. */
struct network_held {
	u64 began, ended; /* of the first transfer */
	u32 length;       /* less than HELD_BYTES */
	u32 unused;
	u64 data[HELD_BYTES / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_held);
} network_held SEC(".maps");

/*
 * Flags in the lower half of struct network_requests.request. The upper half is when the request was read,
 * see capture_moment(). The reader writes both at once.
 */
enum network_request {
	NETWORK_REQUEST_WANTED = 1,     /* the request is captured */
	NETWORK_REQUEST_WAS_WANTED = 2, /* the previous request was captured */
	NETWORK_REQUEST_OPEN = 4,       /* the end of the request is unknown */
	NETWORK_REQUEST_HELD = 8,       /* the first bytes of the next request are in network_held */
	NETWORK_REQUEST_ALL = 16,       /* all of the connection is captured from now on */
	NETWORK_REQUEST_REPORTED = 32,      /* some of the connection was captured */
	NETWORK_REQUEST_CONTENT = 64,   /* its content continues: see capture_request_left() */
};

/* State of HTTP/1 connections whose requests are filtered. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_requests);
} network_requests SEC(".maps");

static __always_inline void capture_key(struct network_frames_key *key, const struct capture_kept *transfer)
{
	key->sock = transfer->sk;
	key->stream = transfer->socket.stream;
}

/* Initial state. It is not on the stack, which is full. */
static const struct network_requests requests_unknown;

/* Returns the state of a connection, which is created if necessary; 0: the map is full. */
static __noinline struct network_requests *capture_requests_of(const struct capture_kept *transfer)
{
	struct network_frames_key key = {};
	struct network_requests *known;

	capture_key(&key, transfer);
	known = bpf_map_lookup_elem(&network_requests, &key);
	if (known)
		return known;
	bpf_map_update_elem(&network_requests, &key, &requests_unknown, BPF_NOEXIST);
	return bpf_map_lookup_elem(&network_requests, &key);
}

/*
 * Bits of struct network_requests.left[NETWORK_WRITE], which the writer sets: the number of skipped requests
 * without a response, which of them are HEAD, and flags.
 */
#define UNANSWERED 0xff
#define UNANSWERED_HEAD(n) (0x100 << (n)) /* of the n-th last of them */
#define UNANSWERED_HEADS 0xf00
#define UNANSWERED_MAX 4
#define ANSWERED 0x10000  /* the response to the last request has begun */
#define PIPELINED 0x20000 /* as NETWORK_REQUEST_ALL, set by the writer */

/* Removes the state of an ended connection. Returns whether some of it was reported. */
static __always_inline bool capture_forget_requests(const struct sock *sk, const struct network_socket *socket)
{
	struct network_frames_key key = { .sock = (u64)sk, .stream = socket->stream };
	struct network_requests *known = bpf_map_lookup_elem(&network_requests, &key);
	bool reported = !known || known->request & NETWORK_REQUEST_REPORTED || known->left[NETWORK_WRITE] & PIPELINED;

	if (known)
		values_end(known, sk, socket, known->left[NETWORK_WRITE] & UNANSWERED);
	bpf_map_delete_elem(&network_requests, &key);
	return reported;
}

/* Subtracts what was skipped on purpose from the position of a transfer, so that gaps in positions are losses. */
static __always_inline void capture_subtract_skipped(struct capture_kept *transfer, struct network_requests *requests)
{
	if (requests && transfer->position)
		transfer->position -= requests->out[transfer->kind & 1];
}

/* Returns a time in units of 1.024 µs, which wraps around after 73 minutes. */
static __always_inline u32 capture_moment(u64 ns) { return ns >> 10; }

/* Converts a time of capture_moment() shortly before ended to ns, rounded down. */
static __always_inline u64 capture_before(u64 ended, u32 read_at) { return ended - ((u64)(capture_moment(ended) - read_at) << 10) - (1 << 10); }

/* Sets the record of a skipped request; counted is its entry if it was to be counted, which it is not from then on, else 0. */
static __always_inline void capture_describe_request(struct network_request_record *record, u32 head, const struct network_counted *counted)
{
	record->set = counted ? counted->set : 0;
	record->path = counted ? counted->path : 0;
	record->head = head ? 1 : 0;
	record->unused = 0;
}

/* Reports a skipped request, for user space to pair with its response. */
static __noinline int capture_report_request(struct capture_scratch *scratch, struct capture_kept *transfer, u64 read_at, u32 head, struct network_counted *counted)
{
	struct network_segment *segment = &scratch->segment;

	if (counted && counted->phase != NETWORK_COUNTED_WAITING)
		counted = 0;
	segment->began = counted ? counted->read_at : read_at;
	segment->ended = segment->began;
	segment->length = 0;
	segment->kind = NETWORK_SEGMENT_REQUEST;
	segment->position = 0;
	segment->protocol = transfer->tls ? NETWORK_TLS : 0;
	capture_describe_request((struct network_request_record *)scratch->data, head, counted);
	if (counted)
		counted->phase = NETWORK_NOT_COUNTED;
	capture_report(segment, sizeof(*segment) + sizeof(struct network_request_record), (struct sock *)transfer->sk, &transfer->socket);
	return 0;
}

/* A record of a skipped request, for programs without scratch. */
struct capture_request_segment {
	struct network_segment segment;
	struct network_request_record request;
};

/* Reports the skipped request that is from_last requests before the last one; false if the ring buffer is full. */
static __noinline bool capture_report_ended_request(const struct sock *sk, const struct network_socket *socket, struct network_requests *requests, u32 from_last)
{
	struct network_counted *counted = &requests->counted[(requests->current ^ from_last) & 1];
	struct capture_request_segment out = {};

	if (from_last > 1 || counted->phase != NETWORK_COUNTED_WAITING)
		counted = 0;
	out.segment.began = counted ? counted->read_at : capture_before(bpf_ktime_get_ns(), requests->request >> 32);
	out.segment.ended = out.segment.began;
	capture_identify(&out.segment, sk, socket);
	out.segment.role = socket->role;
	out.segment.kind = NETWORK_SEGMENT_REQUEST;
	out.segment.protocol = NETWORK_HTTP1 | (socket->protocol & NETWORK_TLS);
	capture_describe_request(&out.request, requests->left[NETWORK_WRITE] & UNANSWERED_HEAD(from_last), counted);
	if (!capture_write(&out.segment, sizeof(out)))
		return false;
	if (counted)
		counted->phase = NETWORK_NOT_COUNTED;
	return true;
}

/*
 * Runs when the client has ended the connection, or its direction of it, while counted requests wait for responses:
 * user space finds out whether they are answered, and all that follows is captured. If the ring buffer is full they
 * are counted in the kernel as before.
 */
static __noinline int capture_end_counted(const struct sock *sk, const struct network_socket *socket)
{
	struct network_frames_key key = { .sock = (u64)sk, .stream = socket->stream };
	struct network_requests *requests = bpf_map_lookup_elem(&network_requests, &key);
	u32 unanswered, from_last, i, reported = 0;
	bool counts;

	if (!requests)
		return 0;
	unanswered = requests->left[NETWORK_WRITE] & UNANSWERED;
	counts = requests->counted[requests->current & 1].phase == NETWORK_COUNTED_WAITING ||
		 (unanswered > 1 && requests->counted[(requests->current ^ 1) & 1].phase == NETWORK_COUNTED_WAITING);
	if (!unanswered || !counts || values_was_answered(requests, sk))
		return 0;
	for (i = 0; i < UNANSWERED_MAX; i++) {
		from_last = UNANSWERED_MAX - 1 - i;
		if (from_last >= unanswered)
			continue;
		if (!capture_report_ended_request(sk, socket, requests, from_last) && !reported)
			return 0;
		reported = 1;
	}
	requests->left[NETWORK_WRITE] = PIPELINED;
	return 0;
}

/* Reports all skipped requests that have no response. */
static __always_inline void capture_report_requests(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, u32 asked)
{
	u64 read_at = capture_before(transfer->ended, requests->request >> 32);
	u32 i;

	for (i = 0; i < UNANSWERED_MAX; i++) {
		u32 from_last = UNANSWERED_MAX - 1 - i;

		if (from_last < (asked & UNANSWERED))
			capture_report_request(scratch, transfer, read_at, asked & UNANSWERED_HEAD(from_last),
					 from_last < 2 ? &requests->counted[(requests->current ^ from_last) & 1] : 0);
	}
}

/*
 * Reports whether a write belongs to the previous request: the call returns so late that the client has read
 * the response and sent another request. TCP positions show it; without them, that the write began before
 * that request was read.
 */
static __always_inline bool capture_is_late(const struct capture_kept *transfer, const struct network_requests *requests, u32 read_at)
{
	if (transfer->position && !transfer->tls && requests->from)
		return (s32)(transfer->position - transfer->length - requests->from) < 0;
	return (s32)(capture_moment(transfer->began) - read_at) < 0;
}

#define CONTENT_ 0x2d746e65746e6f63ULL /* "content-" */
#define LENGTH_ 0x3a6874676e656cULL    /* "length:" */
#define TRANSFER 0x726566736e617274ULL /* "transfer" */
#define CONTENT_LENGTH_BYTES 15
#define LENGTH_DIGITS 16
#define LENGTH_MAX (1U << 31)

/* Each step skips eight bytes, or up to the next line. */
#define HEAD_STEPS 16
#define HEAD_ROUNDS 64

/* Returns the number in a field value at an offset; LENGTH_MAX if it is none. */
static __noinline u32 capture_number(const struct capture_scratch *scratch, u32 at)
{
	u64 value = 0;
	u32 digits = 0, i;
	u8 c;

	for (i = 0; i < LENGTH_DIGITS; i++) {
		c = scratch->data[(at + i) & (CAPTURE_MAX - 1)];
		if (c >= '0' && c <= '9') {
			value = value * 10 + (c - '0');
			digits += 1;
		} else if (digits || (c != ' ' && c != '\t')) {
			break;
		}
	}
	return digits && i < LENGTH_DIGITS && value < LENGTH_MAX ? value : LENGTH_MAX;
}

/* Inspects a header line for what determines the end of the message. */
static __always_inline void capture_field(struct capture_head *head, const u8 *line, u32 at)
{
	u64 name = *(const u64 *)line | WORD_OF(0x20);

	if (name == CONTENT_ && ((*(const u64 *)(line + 8) | WORD_OF(0x20)) & ~0ULL >> 8) == LENGTH_) {
		head->lengths += 1;
		head->length_at = at + CONTENT_LENGTH_BYTES;
	} else if (name == TRANSFER) {
		head->transfer = 1;
	}
}

/* Continues with the header lines in the slot; returns 1 at the end of the head or of the window. */
__noinline int capture_head_lines(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct capture_head *head;
	u32 at, line, i;
	u64 word, ends;

	if (!scratch)
		return 1;
	head = &scratch->head;
	at = head->at;
	line = head->line;
	for (i = 0; i < HEAD_STEPS; i++) {
		const u8 *here = scratch->data + (at & (CAPTURE_MAX - 1));

		if (at >= head->have)
			return 1;
		word = *(const u64 *)here;
		if (line) {
			if ((u8)word == '\n' || (u16)word == 0x0a0d) {
				head->end = at + ((u8)word == '\n' ? 1 : 2);
				return 1;
			}
			capture_field(head, here, at);
		}
		ends = word ^ WORD_OF('\n');
		ends = (ends - WORD_OF(1)) & ~ends & WORD_OF(0x80);
		/* Sums up a one in each byte before the first line feed. */
		line = ends ? 1 : 0;
		at += ends ? (((ends & -ends) - 1) & WORD_OF(1)) * WORD_OF(1) >> 56 : 8;
	}
	head->at = at;
	head->line = line;
	return 0;
}

/*
 * Inspects the head in the slot, of which have bytes are valid. Its first line begins at or before the slot's
 * beginning. Returns the offset of its end; 0: it is not in the window.
 */
static __noinline u32 capture_head(struct capture_scratch *scratch, u32 slot, u32 have)
{
	u32 i;

	scratch->head = (struct capture_head){ .have = have };
	for (i = 0; i < HEAD_ROUNDS; i++) {
		if (capture_head_lines(slot))
			break;
	}
	return scratch->head.end <= have ? scratch->head.end : 0;
}

/* Returns the length of the content after the head that was inspected; LENGTH_MAX if it is unknown. */
static __always_inline u32 capture_content(const struct capture_scratch *scratch)
{
	if (scratch->head.transfer || scratch->head.lengths > 1)
		return LENGTH_MAX;
	return scratch->head.lengths ? capture_number(scratch, scratch->head.length_at) : 0;
}

/* Bytes in which the end of a response's head is searched first: most are shorter. */
#define RESPONSE_FIRST 1024

/* Returns the offset of the end of the response head with which a transfer begins; 0: it was not found. */
static __always_inline u32 capture_response_head(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer)
{
	u32 count = transfer->from.count, want = transfer->length < RESPONSE_FIRST ? transfer->length : RESPONSE_FIRST, end = 0;

	*(u64 *)scratch->data = 0;
	*(u64 *)(scratch->data + 8) = 0;
	if (count > 1)
		transfer->from.count = 1; /* in most cases the head has a buffer of its own */
	want = capture_copy(scratch, slot, &transfer->from, want);
	transfer->from.count = count;
	if (want)
		end = capture_head(scratch, slot, want);
	if (end || (transfer->length <= RESPONSE_FIRST && count <= 1))
		return end;
	want = capture_copy(scratch, slot, &transfer->from, transfer->length < capture_bytes ? transfer->length : capture_bytes);
	return want ? capture_head(scratch, slot, want) : 0;
}

/* Records the beginning of the response to a request that is counted. False: the response cannot be followed. */
static __noinline bool capture_response_begins(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_counted *counted)
{
	u32 end = capture_response_head(scratch, slot, transfer), status = values_status(scratch->data), content, more = transfer->length - end;

	if (!end || !status)
		return false;
	content = counted->is_head || status == 204 || status == 304 ? 0 : capture_content(scratch);
	if (content >= LENGTH_MAX || (!content && !counted->is_head && status != 204 && status != 304 && !scratch->head.lengths))
		return false;
	counted->is_error = status >= 500 && status <= 599;
	counted->ended = transfer->ended;
	if (more >= content) {
		values_add(counted, &transfer->socket, transfer->ended);
	} else {
		counted->left = (transfer->position ? transfer->position : 0) + content - more;
		counted->phase = NETWORK_COUNTED_BODY;
	}
	return true;
}

/*
 * Records a write that may be part of the response to a request that is counted. False: the response cannot
 * be followed, and is captured instead.
 */
static __always_inline bool capture_count_response(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests, bool late)
{
	u32 which = requests->current ^ late;
	struct network_counted *counted = &requests->counted[which & 1], *other = &requests->counted[(requests->current ^ 1) & 1];

	if (!late && other->phase == NETWORK_COUNTED_BODY)
		values_goes_on(other, transfer);
	if (counted->phase == NETWORK_COUNTED_BODY)
		values_goes_on(counted, transfer);
	else if (counted->phase == NETWORK_COUNTED_WAITING)
		return capture_response_begins(scratch, slot, transfer, counted);
	return true;
}

/* Reports requests whose responses cannot be followed, or have not begun; all that follows is captured. */
static __noinline int capture_report_uncounted(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, bool late)
{
	struct network_counted *before = &requests->counted[(requests->current ^ 1) & 1], *last = &requests->counted[requests->current & 1];

	if (late)
		capture_report_request(scratch, transfer, before->read_at, before->is_head, before);
	if (last->phase == NETWORK_COUNTED_WAITING)
		capture_report_request(scratch, transfer, last->read_at, last->is_head, last);
	requests->left[NETWORK_WRITE] = PIPELINED;
	return 0;
}

/* Decides whether a write is captured. */
static __always_inline bool capture_decide_written(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests)
{
	u64 request = *(volatile u64 *)&requests->request;
	u32 asked = requests->left[NETWORK_WRITE], read_at = request >> 32;
	bool wanted, late;

	if (request & NETWORK_REQUEST_ALL || asked & PIPELINED)
		return true;
	late = capture_is_late(transfer, requests, read_at);
	if (late) {
		if (transfer->began == transfer->ended)
			transfer->began = capture_before(transfer->ended, read_at);
		wanted = request & NETWORK_REQUEST_WAS_WANTED;
		if (!wanted && (asked & UNANSWERED) > 1)
			requests->left[NETWORK_WRITE] = (asked & ~(UNANSWERED | UNANSWERED_HEADS)) | (asked & UNANSWERED_HEAD(0)) | 1;
	} else if (!(request & NETWORK_REQUEST_WANTED) && (asked & UNANSWERED) > 1) {
		capture_report_requests(scratch, transfer, requests, asked);
		requests->left[NETWORK_WRITE] = PIPELINED;
		wanted = true;
	} else {
		requests->left[NETWORK_WRITE] = ANSWERED;
		wanted = request & NETWORK_REQUEST_WANTED;
	}
	if (requests->counts && !(requests->left[NETWORK_WRITE] & PIPELINED) && !capture_count_response(scratch, slot, transfer, requests, late)) {
		capture_report_uncounted(scratch, transfer, requests, late);
		wanted = true;
	}
	if (!wanted)
		requests->out[NETWORK_WRITE] += transfer->length;
	return wanted;
}

/*
 * Returns what to do with the request whose beginning is in scratch, by the paths of the process that has
 * read it.
 */
static __noinline u32 capture_path(struct capture_scratch *scratch, const struct network_socket *socket)
{
	struct network_series *series = network_remembered(socket);
	u32 *set, *path, blank = 3, pid;
	u8 *first = scratch->first;

	if (!series)
		return PATH_REPORTED;
	pid = series->key.pid;
	set = bpf_map_lookup_elem(&network_path_owners, &pid);
	if (!set)
		return PATH_REPORTED;
	if (first[blank] != ' ')
		blank = first[4] == ' ' ? 4 : first[5] == ' ' ? 5 : first[6] == ' ' ? 6 : 7;
	if (first[blank] != ' ' || first[blank + 1] != '/')
		return PATH_REPORTED;
	scratch->path.set = *set & PATHS_SET;
	if (*set & PATHS_NONE)
		return NETWORK_PATH_REST;
	scratch->path.bits = 8 * (sizeof(struct network_path) - sizeof(u32));
	bpf_probe_read_kernel(scratch->path.text, PATH_BYTES, first + blank + 1);
	path = bpf_map_lookup_elem(&network_paths, &scratch->path);
	if (path)
		return *path;
	return *set & PATHS_REST ? NETWORK_PATH_REST : PATH_LEFT_OUT;
}

/*
 * Returns the entry for the next request of a connection, if it is to be counted; it replaces the one before
 * the last. A response whose end was not seen has ended by now if TCP's positions show it.
 */
static __always_inline struct network_counted *capture_next(struct capture_kept *transfer, struct network_requests *requests)
{
	struct network_counted *last = &requests->counted[(requests->current ^ 1) & 1], *next = &requests->counted[requests->current & 1];

	if (last->phase == NETWORK_COUNTED_BODY && requests->wrote && (s32)(requests->wrote - last->left) >= 0)
		values_add(last, &transfer->socket, transfer->ended);
	if (next->phase == NETWORK_COUNTED_BODY)
		values_add(next, &transfer->socket, next->ended);
	next->phase = NETWORK_NOT_COUNTED;
	return next;
}

/*
 * Returns how many bytes of a request's content follow before the transfer's end. With positions, struct
 * network_requests.left is the position after the content, as the kernel skips programs that were preempted.
 * Without, it is the number of bytes.
 */
static __always_inline u32 capture_request_left(const struct capture_kept *transfer, struct network_requests *requests)
{
	s32 left = requests->left[NETWORK_READ];

	if (!(requests->request & NETWORK_REQUEST_CONTENT))
		return 0;
	if (transfer->position)
		left -= transfer->position - transfer->length;
	return left > 0 ? left : 0;
}

/* Decision about a transfer. */
enum capture_decision {
	CAPTURE_SKIP = 0,
	CAPTURE_BEGINNING = 1, /* captured: it begins a request */
	CAPTURE_CONTINUE = 2,      /* captured: it continues a message */
	CAPTURE_FOLLOWER = 3,  /* captured from scratch->kept.at on, where another request begins */
};

/* Decides about a transfer that continues a request. */
static __always_inline u32 capture_continue_request(struct capture_kept *transfer, struct network_requests *requests)
{

	if (requests->request & NETWORK_REQUEST_WANTED)
		return CAPTURE_CONTINUE;
	requests->out[NETWORK_READ] += transfer->length;
	return CAPTURE_SKIP;
}

/* Reports whether data may begin a request with an unknown method, or an empty line before one. */
static __always_inline bool capture_may_be_request(const u8 *data)
{
	if (data[0] == '\r' || data[0] == '\n')
		return true;
	return capture_is_letter(data[0]) && capture_is_letter(data[1]) && capture_is_letter(data[2]) && *(const u32 *)data != WORD('H', 'T', 'T', 'P');
}

/* Joins n held bytes with the beginning of the window. */
static __always_inline void capture_join_first(struct capture_scratch *scratch, const struct network_held *held, u32 n)
{
	u64 *to = (u64 *)(scratch->first + (n & (HELD_BYTES - 1)));
	const u64 *from = (u64 *)scratch->data;
	u32 i;

	if (held) {
		*(u64 *)scratch->first = held->data[0];
		*(u64 *)(scratch->first + 8) = held->data[1];
	}
#pragma unroll
	for (i = 0; i < (FIRST_BYTES - HELD_BYTES) / 8; i++)
		to[i] = from[i];
}

/* Holds the first bytes of a possible request until there are enough. */
static __noinline int capture_hold(struct capture_scratch *scratch, const struct capture_kept *transfer, struct network_requests *requests, u32 n)
{
	struct network_held held = { .began = transfer->began, .ended = transfer->ended };
	struct network_frames_key key = {};
	struct network_held *before;

	capture_key(&key, transfer);
	before = n ? bpf_map_lookup_elem(&network_held, &key) : 0;
	if (before) {
		held.began = before->began;
		held.ended = before->ended;
	}
	held.length = n + transfer->length;
	held.data[0] = *(u64 *)scratch->first;
	held.data[1] = *(u64 *)(scratch->first + 8);
	if (bpf_map_update_elem(&network_held, &key, &held, BPF_ANY))
		network_lost(NETWORK_LOST_SEGMENTS);
	else
		requests->request |= NETWORK_REQUEST_HELD;
	return 0;
}

/* Captures or skips held bytes as the transfer that follows. */
static __noinline int capture_release_held(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, bool wanted)
{
	struct network_segment *segment = &scratch->segment;
	struct network_frames_key key = {};
	struct network_held *held;
	u32 length;

	requests->request &= ~(u64)NETWORK_REQUEST_HELD;
	capture_key(&key, transfer);
	held = bpf_map_lookup_elem(&network_held, &key);
	if (!held)
		return 0;
	length = held->length & (HELD_BYTES - 1);
	if (wanted) {
		*(u64 *)scratch->data = held->data[0];
		*(u64 *)(scratch->data + 8) = held->data[1];
		segment->began = held->began;
		segment->ended = held->ended;
		segment->length = length;
		segment->kind = NETWORK_SEGMENT_READ;
		segment->position = transfer->position ? transfer->position - transfer->length - requests->out[NETWORK_READ] : 0;
		segment->protocol = transfer->tls ? NETWORK_TLS : 0;
		capture_report(segment, sizeof(*segment) + length, (struct sock *)transfer->sk, &transfer->socket);
	} else {
		requests->out[NETWORK_READ] += length;
	}
	bpf_map_delete_elem(&network_held, &key);
	return 0;
}

/* Records a request that begins, if it is to be counted. */
static __noinline int capture_note_counted(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests)
{
	u32 path = scratch->path_number;
	struct network_counted *counted;

	if (path == PATH_LEFT_OUT && !requests->counts)
		return 0;
	counted = capture_next(transfer, requests);
	if (path == PATH_LEFT_OUT)
		return 0;
	requests->counts = 1;
	counted->read_at = scratch->since;
	counted->set = scratch->path.set;
	counted->path = path;
	counted->is_head = *(u32 *)scratch->first == WORD('H', 'E', 'A', 'D');
	counted->phase = NETWORK_COUNTED_WAITING;
	return 0;
}

/* Reports whether a request is pipelined such that the kernel can no longer attribute responses. */
static __always_inline bool capture_is_behind(const struct network_requests *requests, u32 asked, u32 path)
{
	const struct network_counted *last = &requests->counted[requests->current & 1], *before = &requests->counted[(requests->current ^ 1) & 1];

	if ((asked & UNANSWERED) >= UNANSWERED_MAX)
		return true;
	if ((asked & UNANSWERED) > 1 && before->phase == NETWORK_COUNTED_WAITING)
		return true;
	/* The previous response has not been written completely. */
	return path != PATH_LEFT_OUT && last->phase == NETWORK_COUNTED_BODY && !(requests->wrote && (s32)(requests->wrote - last->left) >= 0);
}

/*
 * Decides about a request whose first bytes are in scratch. end is the offset of the end of its head; 0:
 * after the window.
 */
static __noinline u32 capture_request_begins(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, u32 end, u32 read_at)
{
	u32 asked = requests->left[NETWORK_WRITE];
	u64 before = requests->request, request = before & NETWORK_REQUEST_REPORTED;
	bool is_head = *(u32 *)scratch->first == WORD('H', 'E', 'A', 'D');
	u32 more = transfer->length - end, content = capture_content(scratch);
	u32 path = PATH_REPORTED;
	bool wanted;

	requests->left[NETWORK_READ] = 0;
	if (!end || content >= LENGTH_MAX) {
		request |= NETWORK_REQUEST_OPEN;
		if (end && capture_path(scratch, &transfer->socket) == PATH_LEFT_OUT)
			path = PATH_LEFT_OUT;
	} else if (more > content || *(u32 *)scratch->first == WORD('C', 'O', 'N', 'N')) {
		request |= NETWORK_REQUEST_ALL; /* another request begins in this transfer, or it is a tunnel */
	} else {
		if (content > more)
			request |= NETWORK_REQUEST_CONTENT;
		requests->left[NETWORK_READ] = transfer->position + content - more;
		path = capture_path(scratch, &transfer->socket);
	}
	wanted = path == PATH_REPORTED;
	if (!wanted && before & NETWORK_REQUEST_WANTED && !(asked & ANSWERED))
		wanted = true; /* it may be pipelined after a captured one */
	if (!wanted && capture_is_behind(requests, asked, path)) {
		request |= NETWORK_REQUEST_ALL;
		wanted = true;
	}
	if (wanted) {
		if (asked & UNANSWERED) {
			capture_report_requests(scratch, transfer, requests, asked);
			before |= NETWORK_REQUEST_WANTED; /* their responses are captured */
		}
		request |= NETWORK_REQUEST_WANTED | NETWORK_REQUEST_REPORTED;
		requests->left[NETWORK_WRITE] = 0;
	} else {
		asked = (asked & UNANSWERED) | (asked & UNANSWERED_HEADS) << 1;
		asked &= UNANSWERED | UNANSWERED_HEADS;
		requests->left[NETWORK_WRITE] = (asked + 1) | (is_head ? UNANSWERED_HEAD(0) : 0);
	}
	scratch->path_number = wanted ? PATH_LEFT_OUT : path;
	if (before & NETWORK_REQUEST_WANTED)
		request |= NETWORK_REQUEST_WAS_WANTED;
	/* All are written at once, because a writer may read them concurrently. */
	requests->current ^= 1;
	requests->from = requests->wrote;
	*(volatile u64 *)&requests->request = request | (before & NETWORK_REQUEST_HELD) | (u64)read_at << 32;
	return wanted ? CAPTURE_BEGINNING : CAPTURE_SKIP;
}

/*
 * A skipped request ends within the transfer and the next one begins there: captures that part, and all of
 * the connection from there on.
 */
static __always_inline int capture_follower(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests)
{
	u32 at = scratch->kept.at, want = transfer->length - at;

	capture_report_requests(scratch, transfer, requests, requests->left[NETWORK_WRITE]);
	requests->left[NETWORK_WRITE] = 0;
	requests->out[NETWORK_READ] += at;
	capture_subtract_skipped(transfer, requests);
	if (want > capture_bytes)
		want = capture_bytes;
	scratch->cursor = (struct capture_cursor){};
	want = capture_window(slot, at, want);
	capture_report_window(scratch, at, want, transfer->length - at);
	return 0;
}

/*
 * Joins held bytes with the transfer, of which scratch has taken bytes. since is when the first byte was
 * read. Returns the number of bytes.
 */
static __noinline u32 capture_first(struct capture_scratch *scratch, const struct capture_kept *transfer, struct network_requests *requests, u32 taken, u64 *since)
{
	struct network_frames_key key = {};
	struct network_held *held = 0;
	u32 n = 0;

	*since = transfer->ended;
	if (requests->request & NETWORK_REQUEST_HELD) {
		capture_key(&key, transfer);
		held = bpf_map_lookup_elem(&network_held, &key);
		if (!held)
			network_lost(NETWORK_LOST_SEGMENTS);
	}
	if (held) {
		n = held->length & (HELD_BYTES - 1);
		*since = held->ended;
	}
	capture_join_first(scratch, held, n);
	return n + taken;
}

/* Decides whether a read is captured. Scratch has its first taken bytes. */
static __always_inline u32 capture_decide_read(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests, u32 taken)
{
	u32 left = capture_request_left(transfer, requests), want = transfer->length, have;
	u64 request = requests->request, since;
	u32 wanted;

	if (request & NETWORK_REQUEST_ALL)
		return CAPTURE_CONTINUE;
	/* A request record has no content: the rest of its request's content is skipped. */
	if (requests->left[NETWORK_WRITE] & PIPELINED && (!left || request & NETWORK_REQUEST_WANTED))
		return CAPTURE_CONTINUE;
	if (left >= want) {
		if (!transfer->position)
			requests->left[NETWORK_READ] = left - want;
		return capture_continue_request(transfer, requests);
	}
	if (left) {
		*(volatile u64 *)&requests->request = request | NETWORK_REQUEST_ALL | NETWORK_REQUEST_REPORTED;
		scratch->kept.at = left;
		return request & NETWORK_REQUEST_WANTED ? CAPTURE_CONTINUE : CAPTURE_FOLLOWER;
	}
	/* TCP's position shows a response even if no program has run for it. */
	if (transfer->position && !transfer->tls) {
		const struct tcp_sock *tcp = (const struct tcp_sock *)transfer->sk;
		u32 wrote = BPF_CORE_READ(tcp, write_seq);

		if (requests->wrote && requests->wrote != wrote)
			requests->left[NETWORK_WRITE] = ANSWERED;
		requests->wrote = wrote;
	}
	if (request & NETWORK_REQUEST_OPEN && !(requests->left[NETWORK_WRITE] & ANSWERED))
		return capture_continue_request(transfer, requests); /* whatever it begins with */
	if (!taken) { /* its memory cannot be read */
		*(volatile u64 *)&requests->request = request | NETWORK_REQUEST_ALL | NETWORK_REQUEST_REPORTED;
		return CAPTURE_CONTINUE;
	}
	have = capture_first(scratch, transfer, requests, taken, &since);
	scratch->since = since;
	if (have < HELD_BYTES && want == taken && capture_is_letter(scratch->first[0])) {
		capture_hold(scratch, transfer, requests, have - taken);
		return CAPTURE_SKIP;
	}
	if (have < HELD_BYTES || !capture_is_request(scratch->first)) {
		if (request && !(request & NETWORK_REQUEST_OPEN) && capture_may_be_request(scratch->first)) {
			wanted = capture_request_begins(scratch, transfer, requests, 0, capture_moment(since));
			capture_note_counted(scratch, transfer, requests);
		} else {
			wanted = capture_continue_request(transfer, requests);
		}
	} else {
		if (want > capture_bytes)
			want = capture_bytes;
		if (taken < want)
			taken = capture_copy(scratch, slot, &transfer->from, want);
		wanted = capture_request_begins(scratch, transfer, requests, capture_head(scratch, slot, taken), capture_moment(since));
		capture_note_counted(scratch, transfer, requests);
		if (!wanted)
			requests->out[NETWORK_READ] += transfer->length;
	}
	if (request & NETWORK_REQUEST_HELD)
		capture_release_held(scratch, transfer, requests, wanted);
	return wanted;
}

/*
 * Decides about the saved transfer, which a process has read; scratch has its first kept.want bytes. Global
 * functions are verified once.
 */
__noinline int capture_read(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_requests *requests;
	struct capture_kept *transfer;
	u32 out;

	if (!scratch)
		return CAPTURE_SKIP;
	transfer = &scratch->kept;
	requests = capture_requests_of(transfer);
	if (!requests)
		return CAPTURE_BEGINNING;
	out = capture_decide_read(scratch, slot, transfer, requests, transfer->want);
	if (out == CAPTURE_FOLLOWER) {
		capture_follower(scratch, slot, transfer, requests);
		return CAPTURE_SKIP;
	}
	if (out != CAPTURE_SKIP)
		capture_subtract_skipped(transfer, requests);
	return out;
}

/* Decides about the saved transfer, which a process has written. */
__noinline int capture_written(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_requests *requests;
	struct capture_kept *transfer;

	if (!scratch)
		return CAPTURE_SKIP;
	transfer = &scratch->kept;
	requests = capture_requests_of(transfer);
	if (!requests)
		return CAPTURE_CONTINUE;
	if (!capture_decide_written(scratch, slot, transfer, requests))
		return CAPTURE_SKIP;
	capture_subtract_skipped(transfer, requests);
	return CAPTURE_CONTINUE;
}

#endif
