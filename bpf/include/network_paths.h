/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where only those requests are wanted that processes answer, and of them those to some
 * paths: which of HTTP/1 leave the kernel. All that a connection carries stays there but
 * wanted requests and their responses.
 *
 * Each transfer that a process reads begins a request, or goes on with the one before,
 * by the length of whose content is known where the next begins. Whoever writes answers the
 * request that was read last before. What cannot be told apart leaves the kernel: heads
 * that come in pieces, and all of a connection whose requests are sent before the ones
 * before were answered (pipelining). What was left out before such a request is told by
 * a stand-in, which user space pairs with its response.
 */
#ifndef EBPFRECEIVER_NETWORK_PATHS_H
#define EBPFRECEIVER_NETWORK_PATHS_H

#include "network_values.h"

/* Only requests that processes answer are wanted; where a process has a set of paths, to those alone. */
volatile const bool capture_answers;

#define WORD(a, b, c, d) ((u32)(a) | (u32)(b) << 8 | (u32)(c) << 16 | (u32)(d) << 24)

/* A method of HTTP/1 and a blank (RFC 9112, 3). */
static __always_inline bool capture_is_request(const u8 *data)
{
	u32 first = *(const u32 *)data, second = *(const u32 *)(data + 4);

	switch (first) {
	case WORD('G', 'E', 'T', ' '):
	case WORD('P', 'U', 'T', ' '):
		return true;
	case WORD('P', 'O', 'S', 'T'):
	case WORD('H', 'E', 'A', 'D'):
		return (u8)second == ' ';
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

/* A message of HTTP/1: a request, or the beginning of a response (RFC 9112, 4). */
static __always_inline bool capture_is_http1(const u8 *data)
{
	return capture_is_request(data) ||
	       (*(const u32 *)data == WORD('H', 'T', 'T', 'P') && (*(const u32 *)(data + 4) & 0xffffff) == WORD('/', '1', '.', 0));
}

/* So few bytes do not tell a message of HTTP/1. */
#define HTTP1_TELLS 8

/*
 * A transfer of fewer bytes than tell a message has the first of one that often begins: some
 * read the first byte by itself, as nginx does of what comes before a handshake is over. What
 * is none after all user space refuses.
 */
static __always_inline bool capture_may_begin_http1(const u8 *data, u32 taken)
{
	u32 first = *(const u32 *)data, known = taken < 4 ? (1U << 8 * taken) - 1 : ~0U;

	return !((first ^ WORD('G', 'E', 'T', ' ')) & known) || !((first ^ WORD('P', 'O', 'S', 'T')) & known) || !((first ^ WORD('H', 'E', 'A', 'D')) & known) ||
	       !((first ^ WORD('P', 'U', 'T', ' ')) & known) || !((first ^ WORD('H', 'T', 'T', 'P')) & known);
}

/* Of a set's number: requests to none of its paths are counted; and it has no paths. */
#define PATHS_REST (1U << 31)
#define PATHS_NONE (1U << 30)
#define PATHS_SET (PATHS_NONE - 1)

/* What becomes of a request; else the number of the path by which it is counted, see network_values.h. */
#define PATH_LEFT_OUT 0
#define PATH_TOLD 0x10000

/* Who has a set of paths: its number, and what becomes of requests to others, by process id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* by user space, as of the next one */
	__type(key, u32);
	__type(value, u32);
} network_path_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct network_path);
	__type(value, u32); /* PATH_TOLD, or a number */
} network_paths SEC(".maps");

/* What a request is known by is in more than one transfer: the first bytes wait here. */
struct network_held {
	u64 began, ended; /* of the first transfer */
	u32 length;       /* less than HELD_BYTES */
	u32 unused;
	u64 data[HELD_BYTES / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_held);
} network_held SEC(".maps");

/*
 * The lower half of struct network_requests.request; the upper one is when the request
 * was read, see capture_moment(). Both are written at once, by whoever reads.
 */
enum network_request {
	NETWORK_REQUEST_WANTED = 1,     /* it leaves the kernel */
	NETWORK_REQUEST_WAS_WANTED = 2, /* the one before it did */
	NETWORK_REQUEST_OPEN = 4,       /* nothing told where it ends */
	NETWORK_REQUEST_HELD = 8,       /* the first bytes of the next one are in network_held */
	NETWORK_REQUEST_ALL = 16,       /* all of the connection leaves the kernel from now on */
	NETWORK_REQUEST_TOLD = 32,      /* something of the connection did */
	NETWORK_REQUEST_CONTENT = 64,   /* its content goes on: see capture_request_left() */
};

/* Of connections of HTTP/1 where not all requests leave the kernel. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_requests);
} network_requests SEC(".maps");

static __always_inline void capture_key(struct network_frames_key *key, const struct capture_kept *transfer)
{
	key->sock = transfer->sk;
	key->stream = transfer->socket.stream;
}

/* Of a connection nothing is known yet. Not on the stack, which is full. */
static const struct network_requests requests_unknown;

/* What is known of a connection's requests, from now on; 0 where there is no room. */
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

/* struct network_requests.left of who writes: how many requests were left out and not answered, which of them are HEAD, and more. */
#define UNANSWERED 0xff
#define UNANSWERED_HEAD(n) (0x100 << (n)) /* of the n-th last of them */
#define UNANSWERED_HEADS 0xf00
#define UNANSWERED_MOST 4
#define ANSWERED 0x10000  /* the response to the last request has begun */
#define PIPELINED 0x20000 /* as NETWORK_REQUEST_ALL, by who writes */

/* The connection is over. Returns whether user space knows it. */
static __always_inline bool capture_forget_requests(const struct sock *sk, const struct network_socket *socket)
{
	struct network_frames_key key = { .sock = (u64)sk, .stream = socket->stream };
	struct network_requests *known = bpf_map_lookup_elem(&network_requests, &key);
	bool told = !known || known->request & NETWORK_REQUEST_TOLD || known->left[NETWORK_WRITE] & PIPELINED;

	if (known)
		values_end(known, socket);
	bpf_map_delete_elem(&network_requests, &key);
	return told;
}

/* Takes what was left out on purpose off the position of a transfer: what is missing in that is what was lost. */
static __always_inline void capture_take_off(struct capture_kept *transfer, struct network_requests *requests)
{
	if (requests && transfer->position)
		transfer->position -= requests->out[transfer->kind & 1];
}

/* A moment in units of 1.024 us, which come round after 73 minutes. */
static __always_inline u32 capture_moment(u64 ns) { return ns >> 10; }

/* The moment before one that was noted, which was not long before another. */
static __always_inline u64 capture_before(u64 ended, u32 read_at) { return ended - ((u64)(capture_moment(ended) - read_at) << 10) - (1 << 10); }

/* In place of a request that was left out, and that user space has to pair with its response. */
#define STAND_IN_HEAD "HEAD *00000000 HTTP/1.1\r\n\r\n"
#define STAND_IN_GET "GET *00000000 HTTP/1.1\r\n\r\n"
/* The hexadecimal digits are those of the set, of which the lower half counts, and the number of its path by which the request was to be counted; 0: by none. */
#define STAND_IN_DIGITS 8

static __always_inline u8 capture_digit(u32 number, u32 shift)
{
	u8 digit = number >> shift & 15;

	return digit < 10 ? '0' + digit : 'a' + digit - 10;
}

/*
 * Tells of one that was left out, by a request of which nothing counts but when it was read, whether it is HEAD,
 * and, if it was to be counted, its path. Then it is counted no more.
 */
static __noinline int capture_stand_in(struct capture_scratch *scratch, struct capture_kept *transfer, u64 read_at, u32 head, struct network_counted *counted)
{
	struct network_piece *piece = &scratch->piece;
	u32 length = head ? sizeof(STAND_IN_HEAD) - 1 : sizeof(STAND_IN_GET) - 1, path = 0, i;
	u8 *digits = scratch->data + (head ? sizeof("HEAD *") - 1 : sizeof("GET *") - 1);

	if (head)
		__builtin_memcpy(scratch->data, STAND_IN_HEAD, sizeof(STAND_IN_HEAD) - 1);
	else
		__builtin_memcpy(scratch->data, STAND_IN_GET, sizeof(STAND_IN_GET) - 1);
	piece->ended = read_at;
	if (counted && counted->phase == NETWORK_COUNTED_ASKED) {
		piece->ended = counted->read_at;
		path = counted->set << 16 | counted->path;
		counted->phase = NETWORK_NOT_COUNTED;
	}
#pragma unroll
	for (i = 0; i < STAND_IN_DIGITS; i++)
		digits[i] = capture_digit(path, 4 * (STAND_IN_DIGITS - 1 - i));
	piece->began = piece->ended;
	piece->length = length;
	piece->kind = NETWORK_PIECE_READ;
	piece->position = 0;
	piece->protocol = transfer->tls ? NETWORK_TLS : 0;
	capture_tell(piece, sizeof(*piece) + length, (struct sock *)transfer->sk, &transfer->socket);
	return 0;
}

/* Tells of all that were left out and not answered. */
static __always_inline void capture_stand_ins(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, u32 asked)
{
	u64 read_at = capture_before(transfer->ended, requests->request >> 32);
	u32 i;

	for (i = 0; i < UNANSWERED_MOST; i++) {
		u32 from_last = UNANSWERED_MOST - 1 - i;

		if (from_last < (asked & UNANSWERED))
			capture_stand_in(scratch, transfer, read_at, asked & UNANSWERED_HEAD(from_last),
					 from_last < 2 ? &requests->counted[(requests->current ^ from_last) & 1] : 0);
	}
}

/*
 * The call that writes returns so late that the client has read it and asked again: the
 * bytes were on their way when that request was read. Where TCP does not tell, it had begun.
 */
static __always_inline bool capture_is_late(const struct capture_kept *transfer, const struct network_requests *requests, u32 read_at)
{
	if (transfer->position && !transfer->tls && requests->from)
		return (s32)(transfer->position - transfer->length - requests->from) < 0;
	return (s32)(capture_moment(transfer->began) - read_at) < 0;
}

#define WORD_OF(c) (0x0101010101010101ULL * (c))
#define CONTENT_ 0x2d746e65746e6f63ULL /* "content-" */
#define LENGTH_ 0x3a6874676e656cULL    /* "length:" */
#define TRANSFER 0x726566736e617274ULL /* "transfer" */
#define CONTENT_LENGTH_BYTES 15
#define LENGTH_DIGITS 16
#define LENGTH_MOST (1U << 31)

/* Each step passes over eight bytes, or to the next line. */
#define HEAD_STEPS 16
#define HEAD_ROUNDS 64

/* The number of a field, as text from at on; LENGTH_MOST where it is none. */
static __noinline u32 capture_number(const struct capture_scratch *scratch, u32 at)
{
	u64 value = 0;
	u32 digits = 0, i;
	u8 c;

	for (i = 0; i < LENGTH_DIGITS; i++) {
		c = scratch->data[(at + i) & (CAPTURE_MOST - 1)];
		if (c >= '0' && c <= '9') {
			value = value * 10 + (c - '0');
			digits += 1;
		} else if (digits || (c != ' ' && c != '\t')) {
			break;
		}
	}
	return digits && i < LENGTH_DIGITS && value < LENGTH_MOST ? value : LENGTH_MOST;
}

/* A line of a head begins in scratch: notes what it says of where the request ends. */
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

/* Goes on through the head in the slot; returns 1 when it was looked through, or is not whole in the window. */
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
		const u8 *here = scratch->data + (at & (CAPTURE_MOST - 1));

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
		/* Ones in all bytes up to the first that ends a line are added up. */
		line = ends ? 1 : 0;
		at += ends ? (((ends & -ends) - 1) & WORD_OF(1)) * WORD_OF(1) >> 56 : 8;
	}
	head->at = at;
	head->line = line;
	return 0;
}

/*
 * Looks through the head of which the slot has so many bytes, and whose first line begins
 * there or before; returns where it ends, 0 if that is not among them.
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

/* The length of the content behind the head that was looked at; LENGTH_MOST where it does not say it. */
static __always_inline u32 capture_content(const struct capture_scratch *scratch)
{
	if (scratch->head.transfer || scratch->head.lengths > 1)
		return LENGTH_MOST;
	return scratch->head.lengths ? capture_number(scratch, scratch->head.length_at) : 0;
}

/* Heads of responses are shorter, mostly: so much is looked at first. */
#define ANSWER_FIRST 1024

/* Looks for the end of the head of the response with which a transfer begins: where that is, 0 if it is not found. */
static __always_inline u32 capture_answer_head(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer)
{
	u32 count = transfer->from.count, want = transfer->length < ANSWER_FIRST ? transfer->length : ANSWER_FIRST, end = 0;

	*(u64 *)scratch->data = 0;
	*(u64 *)(scratch->data + 8) = 0;
	if (count > 1)
		transfer->from.count = 1; /* mostly the head has a piece of memory of its own */
	want = capture_take(scratch, slot, &transfer->from, want);
	transfer->from.count = count;
	if (want)
		end = capture_head(scratch, slot, want);
	if (end || (transfer->length <= ANSWER_FIRST && count <= 1))
		return end;
	want = capture_take(scratch, slot, &transfer->from, transfer->length < capture_bytes ? transfer->length : capture_bytes);
	return want ? capture_head(scratch, slot, want) : 0;
}

/* The response to a request that is counted begins with a transfer. False where it cannot be followed. */
static __noinline bool capture_answer_begins(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_counted *counted)
{
	u32 end = capture_answer_head(scratch, slot, transfer), status = values_status(scratch->data), content, more = transfer->length - end;

	if (!end || !status)
		return false;
	content = counted->is_head || status == 204 || status == 304 ? 0 : capture_content(scratch);
	if (content >= LENGTH_MOST || (!content && !counted->is_head && status != 204 && status != 304 && !scratch->head.lengths))
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
 * A process writes what may be a part of the response to a request that is counted. False where that cannot be
 * followed: then user space is told of it instead.
 */
static __always_inline bool capture_counts_answer(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests, bool late)
{
	u32 which = requests->current ^ late;
	struct network_counted *counted = &requests->counted[which & 1], *other = &requests->counted[(requests->current ^ 1) & 1];

	if (!late && other->phase == NETWORK_COUNTED_BODY)
		values_goes_on(other, transfer);
	if (counted->phase == NETWORK_COUNTED_BODY)
		values_goes_on(counted, transfer);
	else if (counted->phase == NETWORK_COUNTED_ASKED)
		return capture_answer_begins(scratch, slot, transfer, counted);
	return true;
}

/* Tells of requests whose responses cannot be followed, or not been seen yet; and of all that follows. */
static __noinline int capture_answer_told(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, bool late)
{
	struct network_counted *before = &requests->counted[(requests->current ^ 1) & 1], *last = &requests->counted[requests->current & 1];

	if (late)
		capture_stand_in(scratch, transfer, before->read_at, before->is_head, before);
	if (last->phase == NETWORK_COUNTED_ASKED)
		capture_stand_in(scratch, transfer, last->read_at, last->is_head, last);
	requests->left[NETWORK_WRITE] = PIPELINED;
	return 0;
}

/* A process writes. Returns whether it leaves the kernel. */
static __always_inline bool capture_wants_answer(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests)
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
		capture_stand_ins(scratch, transfer, requests, asked);
		requests->left[NETWORK_WRITE] = PIPELINED;
		wanted = true;
	} else {
		requests->left[NETWORK_WRITE] = ANSWERED;
		wanted = request & NETWORK_REQUEST_WANTED;
	}
	if (requests->counts && !(requests->left[NETWORK_WRITE] & PIPELINED) && !capture_counts_answer(scratch, slot, transfer, requests, late)) {
		capture_answer_told(scratch, transfer, requests, late);
		wanted = true;
	}
	if (!wanted)
		requests->out[NETWORK_WRITE] += transfer->length;
	return wanted;
}

/* What becomes of the request whose beginning is in scratch, by the paths of whoever has read it. */
static __noinline u32 capture_path(struct capture_scratch *scratch, const struct network_socket *socket)
{
	struct network_series *series = network_remembered(socket);
	u32 *set, *path, blank = 3, pid;
	u8 *first = scratch->first;

	if (!series)
		return PATH_TOLD;
	pid = series->key.pid;
	set = bpf_map_lookup_elem(&network_path_owners, &pid);
	if (!set)
		return PATH_TOLD;
	if (first[blank] != ' ')
		blank = first[4] == ' ' ? 4 : first[5] == ' ' ? 5 : first[6] == ' ' ? 6 : 7;
	if (first[blank] != ' ' || first[blank + 1] != '/')
		return PATH_TOLD;
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
 * The next request of a connection has begun: returns where it is noted if it is to be counted, in place of the one before the
 * last. A response that nobody has seen the end of has ended by now, where TCP says so.
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
 * How much of a request's content is to come before the transfer. Where positions are known,
 * struct network_requests.left is the one behind it: transfers may not have been seen, since the
 * kernel leaves programs out that were preempted. Else it is the number itself.
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

/* What becomes of a transfer that a process reads. */
enum capture_way_out {
	CAPTURE_NOTHING = 0,
	CAPTURE_BEGINNING = 1, /* it begins a request and leaves the kernel */
	CAPTURE_MORE = 2,      /* it goes on with one and does */
	CAPTURE_FOLLOWER = 3,  /* what of it begins another one does: where that is in scratch->kept.at */
};

/* The request goes on. */
static __always_inline u32 capture_goes_on(struct capture_kept *transfer, struct network_requests *requests)
{

	if (requests->request & NETWORK_REQUEST_WANTED)
		return CAPTURE_MORE;
	requests->out[NETWORK_READ] += transfer->length;
	return CAPTURE_NOTHING;
}

static __always_inline bool capture_is_letter(u8 c) { return c >= 'A' && c <= 'Z'; }

/* A request with a method that is not known may begin so, or with an empty line. */
static __always_inline bool capture_may_be_request(const u8 *data)
{
	if (data[0] == '\r' || data[0] == '\n')
		return true;
	return capture_is_letter(data[0]) && capture_is_letter(data[1]) && capture_is_letter(data[2]) && *(const u32 *)data != WORD('H', 'T', 'T', 'P');
}

/* Puts what is held, of n bytes, and the window's beginning together. */
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

/* Keeps the first bytes of what may be a request until there are enough. */
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
		network_lost(NETWORK_LOST_PIECES);
	else
		requests->request |= NETWORK_REQUEST_HELD;
	return 0;
}

/* What was held goes the way of what follows it. */
static __noinline int capture_let_go(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, bool wanted)
{
	struct network_piece *piece = &scratch->piece;
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
		piece->began = held->began;
		piece->ended = held->ended;
		piece->length = length;
		piece->kind = NETWORK_PIECE_READ;
		piece->position = transfer->position ? transfer->position - transfer->length - requests->out[NETWORK_READ] : 0;
		piece->protocol = transfer->tls ? NETWORK_TLS : 0;
		capture_tell(piece, sizeof(*piece) + length, (struct sock *)transfer->sk, &transfer->socket);
	} else {
		requests->out[NETWORK_READ] += length;
	}
	bpf_map_delete_elem(&network_held, &key);
	return 0;
}

/* Notes a request that has begun, if it is to be counted. */
static __noinline int capture_notes(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests)
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
	counted->phase = NETWORK_COUNTED_ASKED;
	return 0;
}

/* Whether a request is sent behind others so that they cannot be told apart any more in the kernel. */
static __always_inline bool capture_is_behind(const struct network_requests *requests, u32 asked, u32 path)
{
	const struct network_counted *last = &requests->counted[requests->current & 1], *before = &requests->counted[(requests->current ^ 1) & 1];

	if ((asked & UNANSWERED) >= UNANSWERED_MOST)
		return true;
	if ((asked & UNANSWERED) > 1 && before->phase == NETWORK_COUNTED_ASKED)
		return true;
	/* The response before has not been written to its end. */
	return path != PATH_LEFT_OUT && last->phase == NETWORK_COUNTED_BODY && !(requests->wrote && (s32)(requests->wrote - last->left) >= 0);
}

/*
 * A request begins, whose first bytes are in scratch; its head ends there in the window,
 * 0: behind it.
 */
static __noinline u32 capture_request_begins(struct capture_scratch *scratch, struct capture_kept *transfer, struct network_requests *requests, u32 end, u32 read_at)
{
	u32 asked = requests->left[NETWORK_WRITE];
	u64 before = requests->request, request = before & NETWORK_REQUEST_TOLD;
	bool is_head = *(u32 *)scratch->first == WORD('H', 'E', 'A', 'D');
	u32 more = transfer->length - end, content = capture_content(scratch);
	u32 path = PATH_TOLD;
	bool wanted;

	requests->left[NETWORK_READ] = 0;
	if (!end || content >= LENGTH_MOST) {
		request |= NETWORK_REQUEST_OPEN;
		if (end && capture_path(scratch, &transfer->socket) == PATH_LEFT_OUT)
			path = PATH_LEFT_OUT;
	} else if (more > content || *(u32 *)scratch->first == WORD('C', 'O', 'N', 'N')) {
		request |= NETWORK_REQUEST_ALL; /* the next one has begun in this transfer; or it is a tunnel */
	} else {
		if (content > more)
			request |= NETWORK_REQUEST_CONTENT;
		requests->left[NETWORK_READ] = transfer->position + content - more;
		path = capture_path(scratch, &transfer->socket);
	}
	wanted = path == PATH_TOLD;
	if (!wanted && before & NETWORK_REQUEST_WANTED && !(asked & ANSWERED))
		wanted = true; /* it may be pipelined behind one that is told */
	if (!wanted && capture_is_behind(requests, asked, path)) {
		request |= NETWORK_REQUEST_ALL;
		wanted = true;
	}
	if (wanted) {
		if (asked & UNANSWERED) {
			capture_stand_ins(scratch, transfer, requests, asked);
			before |= NETWORK_REQUEST_WANTED; /* their responses are told */
		}
		request |= NETWORK_REQUEST_WANTED | NETWORK_REQUEST_TOLD;
		requests->left[NETWORK_WRITE] = 0;
	} else {
		asked = (asked & UNANSWERED) | (asked & UNANSWERED_HEADS) << 1;
		asked &= UNANSWERED | UNANSWERED_HEADS;
		requests->left[NETWORK_WRITE] = (asked + 1) | (is_head ? UNANSWERED_HEAD(0) : 0);
	}
	scratch->path_number = wanted ? PATH_LEFT_OUT : path;
	if (before & NETWORK_REQUEST_WANTED)
		request |= NETWORK_REQUEST_WAS_WANTED;
	/* One after the other: whoever writes at this moment goes by all of them. */
	requests->current ^= 1;
	requests->from = requests->wrote;
	*(volatile u64 *)&requests->request = request | (before & NETWORK_REQUEST_HELD) | (u64)read_at << 32;
	return wanted ? CAPTURE_BEGINNING : CAPTURE_NOTHING;
}

/*
 * The rest of a request that was left out ends within the transfer, and the next one begins
 * there: tells of that alone. All of the connection leaves the kernel from there on.
 */
static __always_inline int capture_follower(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests)
{
	u32 at = scratch->kept.at, want = transfer->length - at;

	capture_stand_ins(scratch, transfer, requests, requests->left[NETWORK_WRITE]);
	requests->left[NETWORK_WRITE] = 0;
	requests->out[NETWORK_READ] += at;
	capture_take_off(transfer, requests);
	if (want > capture_bytes)
		want = capture_bytes;
	scratch->cursor = (struct capture_cursor){};
	want = capture_window(slot, at, want);
	capture_tell_window(scratch, at, want, transfer->length - at);
	return 0;
}

/*
 * Puts together what begins with the transfer, taken bytes of which are in scratch:
 * the first bytes may be held since one before; since is when they were read. Returns
 * how many bytes there are.
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
			network_lost(NETWORK_LOST_PIECES);
	}
	if (held) {
		n = held->length & (HELD_BYTES - 1);
		*since = held->ended;
	}
	capture_join_first(scratch, held, n);
	return n + taken;
}

/* A process reads, of which the first taken bytes are in scratch, where others may be later. */
static __always_inline u32 capture_wants_request(struct capture_scratch *scratch, u32 slot, struct capture_kept *transfer, struct network_requests *requests, u32 taken)
{
	u32 left = capture_request_left(transfer, requests), want = transfer->length, have;
	u64 request = requests->request, since;
	u32 wanted;

	if (request & NETWORK_REQUEST_ALL)
		return CAPTURE_MORE;
	/* A stand-in that was told of has no content: what is left of its request's stays here. */
	if (requests->left[NETWORK_WRITE] & PIPELINED && (!left || request & NETWORK_REQUEST_WANTED))
		return CAPTURE_MORE;
	if (left >= want) {
		if (!transfer->position)
			requests->left[NETWORK_READ] = left - want;
		return capture_goes_on(transfer, requests);
	}
	if (left) {
		*(volatile u64 *)&requests->request = request | NETWORK_REQUEST_ALL | NETWORK_REQUEST_TOLD;
		scratch->kept.at = left;
		return request & NETWORK_REQUEST_WANTED ? CAPTURE_MORE : CAPTURE_FOLLOWER;
	}
	/* TCP tells of what was answered also where no program has run yet, or was left out. */
	if (transfer->position && !transfer->tls) {
		const struct tcp_sock *tcp = (const struct tcp_sock *)transfer->sk;
		u32 wrote = BPF_CORE_READ(tcp, write_seq);

		if (requests->wrote && requests->wrote != wrote)
			requests->left[NETWORK_WRITE] = ANSWERED;
		requests->wrote = wrote;
	}
	if (request & NETWORK_REQUEST_OPEN && !(requests->left[NETWORK_WRITE] & ANSWERED))
		return capture_goes_on(transfer, requests); /* whatever it looks like */
	if (!taken) { /* its memory cannot be read */
		*(volatile u64 *)&requests->request = request | NETWORK_REQUEST_ALL | NETWORK_REQUEST_TOLD;
		return CAPTURE_MORE;
	}
	have = capture_first(scratch, transfer, requests, taken, &since);
	scratch->since = since;
	if (have < HELD_BYTES && want == taken && capture_is_letter(scratch->first[0])) {
		capture_hold(scratch, transfer, requests, have - taken);
		return CAPTURE_NOTHING;
	}
	if (have < HELD_BYTES || !capture_is_request(scratch->first)) {
		if (request && !(request & NETWORK_REQUEST_OPEN) && capture_may_be_request(scratch->first)) {
			wanted = capture_request_begins(scratch, transfer, requests, 0, capture_moment(since));
			capture_notes(scratch, transfer, requests);
		} else {
			wanted = capture_goes_on(transfer, requests);
		}
	} else {
		if (want > capture_bytes)
			want = capture_bytes;
		if (taken < want)
			taken = capture_take(scratch, slot, &transfer->from, want);
		wanted = capture_request_begins(scratch, transfer, requests, capture_head(scratch, slot, taken), capture_moment(since));
		capture_notes(scratch, transfer, requests);
		if (!wanted)
			requests->out[NETWORK_READ] += transfer->length;
	}
	if (request & NETWORK_REQUEST_HELD)
		capture_let_go(scratch, transfer, requests, wanted);
	return wanted;
}

/*
 * What becomes of the transfer that is kept in a slot, of enum capture_way_out. Functions of their own for the
 * verifier: it looks at them once. Of what a process reads the first bytes are in scratch, as many as are wanted.
 */
__noinline int capture_read(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_requests *requests;
	struct capture_kept *transfer;
	u32 out;

	if (!scratch)
		return CAPTURE_NOTHING;
	transfer = &scratch->kept;
	requests = capture_requests_of(transfer);
	if (!requests)
		return CAPTURE_BEGINNING;
	out = capture_wants_request(scratch, slot, transfer, requests, transfer->want);
	if (out == CAPTURE_FOLLOWER) {
		capture_follower(scratch, slot, transfer, requests);
		return CAPTURE_NOTHING;
	}
	if (out != CAPTURE_NOTHING)
		capture_take_off(transfer, requests);
	return out;
}

/* The same of one that a process writes. */
__noinline int capture_written(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_requests *requests;
	struct capture_kept *transfer;

	if (!scratch)
		return CAPTURE_NOTHING;
	transfer = &scratch->kept;
	requests = capture_requests_of(transfer);
	if (!requests)
		return CAPTURE_MORE;
	if (!capture_wants_answer(scratch, slot, transfer, requests))
		return CAPTURE_NOTHING;
	capture_take_off(transfer, requests);
	return CAPTURE_MORE;
}

#endif
