/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * HTTP/1 messages that follow each other within a transfer, as pipelined requests and their responses do.
 * They are followed from head to head by the length of their content, also in transfers longer than a window:
 * windows begin at heads, and of the content between them only the length is captured. The state of a
 * direction is kept in struct network_frames from one transfer to the next.
 *
 * A direction is followed from the first transfer on in which another message begins after the end of one.
 * This only affects which bytes are captured.
 */
#ifndef EBPFRECEIVER_NETWORK_PIPELINE_H
#define EBPFRECEIVER_NETWORK_PIPELINE_H

#include "network_head.h"

/* Windows of one transfer, and messages and chunks of one window, that are inspected. */
#define PIPELINE_WINDOWS 128
#define PIPELINE_MESSAGES 128
/* Bytes that show whether a message begins, and the offset of the status in a status line. */
#define MESSAGE_FIRST 16
#define STATUS_AT 9
/* Maximum length of the line before a chunk. */
#define CHUNK_LINE 32
/* Bytes that are kept of an incomplete head or chunk line at the end of a transfer. */
#define TAIL_MAX 1024

/* These bytes of a direction, which the next transfer continues. */
struct network_tail {
	u32 length;
	u32 unused;
	u8 data[TAIL_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct network_frames_key);
	__type(value, struct network_tail);
} network_tails SEC(".maps");

/*
 * Reports whether a transfer of this length may have filled the buffer of the call, so that the connection
 * has more.
 */
static __always_inline bool pipeline_may_fill(u32 length) { return length >= CAPTURE_NEXT && (length > CAPTURE_MAX || !(length & (length - 1))); }

static __always_inline u8 *pipeline_data(struct capture_scratch *scratch, u32 at) { return scratch->data + (at & (CAPTURE_MAX - 1)); }

static __always_inline u32 pipeline_digit(u8 c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* Returns the offset after the chunk whose line is in the window; 0: the line is incomplete. */
__noinline int pipeline_chunk(u32 slot, u32 at)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	volatile struct capture_line *line; /* in memory and volatile, so that the verifier does not track the values */
	u32 size, digit, have, i;
	bool ended = false;
	u8 c;

	if (!scratch)
		return 0;
	line = &scratch->line;
	line->size = 0;
	line->digits = 0;
	line->sized = false;
	have = scratch->walk.have;
	for (i = 0; i < CHUNK_LINE; i++) {
		if (at + i >= have)
			return 0;
		c = *pipeline_data(scratch, at + i);
		if (c == '\n') {
			ended = true;
			break;
		}
		digit = pipeline_digit(c);
		if (digit > 15)
			line->sized = true;
		if (line->sized)
			continue;
		line->size = line->size << 4 | digit;
		line->digits += 1;
	}
	size = line->size;
	if (!ended || !line->digits || line->digits > 7) {
		scratch->walk.lost = 1;
		return 0;
	}
	at += i + 1;
	if (size)
		return at + size + 2; /* the line end after the chunk */
	if (at + 1 >= have)
		return 0;
	c = *pipeline_data(scratch, at);
	if (c != '\r' && c != '\n') { /* trailers */
		scratch->walk.lost = 1;
		return 0;
	}
	scratch->walk.frames.data = 0;
	return at + (c == '\n' ? 1 : 2);
}

/* What pipeline_transfer() has done with a transfer. */
enum pipeline_result {
	PIPELINE_NOT_REPORTED = 0,
	PIPELINE_REPORTED = 1,
	PIPELINE_CONTINUES = 2, /* reported, and it ends within a head that is too long to be kept */
};

/* What the first line of a message shows. */
enum pipeline_message {
	PIPELINE_NONE = 0, /* no message */
	PIPELINE_REQUEST = 1,
	PIPELINE_RESPONSE = 2,
	PIPELINE_EMPTY = 3, /* a response that has no content by its status */
};

static __always_inline u32 pipeline_message_of(const u8 *data)
{
	const u8 *status = data + STATUS_AT;

	if (*(const u32 *)data != WORD('H', 'T', 'T', 'P'))
		return data[0] >= 'A' && data[0] <= 'Z' ? PIPELINE_REQUEST : PIPELINE_NONE;
	if (status[0] == '1' || (status[1] == '0' && status[2] == '4' && (status[0] == '2' || status[0] == '3')))
		return PIPELINE_EMPTY;
	return PIPELINE_RESPONSE;
}

/* Returns the offset after the message whose head was inspected and ends in the window; 0: unknown. */
static __always_inline u32 pipeline_end(struct capture_scratch *scratch, u32 end, u32 message)
{
	struct capture_walk *walk = &scratch->walk;
	u32 content;

	if (message == PIPELINE_EMPTY)
		return end;
	if (scratch->head.transfer) {
		walk->frames.data = 1;
		return end;
	}
	content = capture_content(scratch);
	if (content >= LENGTH_MAX || (message == PIPELINE_RESPONSE && !scratch->head.lengths)) {
		walk->lost = 1;
		return 0;
	}
	if (message == PIPELINE_REQUEST || !content)
		return end + content;
	/* A response to HEAD has no content: another response follows. */
	if (end + 8 > walk->have)
		return 0;
	return (*(const u64 *)pipeline_data(scratch, end) & HTTP_1_MASK) == HTTP_1 ? end : end + content;
}

/* Returns the offset after the message or chunk that begins in the window; 0: unknown. */
__noinline int pipeline_next(u32 slot, u32 at)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct capture_walk *walk;
	u32 i, end, message;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
	if (walk->frames.data)
		return pipeline_chunk(slot, at);
	if (at + MESSAGE_FIRST > walk->have)
		return 0;
	message = pipeline_message_of(pipeline_data(scratch, at));
	if (message == PIPELINE_NONE) {
		walk->lost = 1;
		return 0;
	}
	scratch->head = (struct capture_head){ .have = walk->have, .at = at };
	for (i = 0; i < HEAD_ROUNDS; i++) {
		if (capture_head_lines(slot))
			break;
	}
	end = scratch->head.end;
	if (!end || end > walk->have)
		return 0;
	return pipeline_end(scratch, end, message);
}

static __always_inline void pipeline_key(struct network_frames_key *key, const struct capture_scratch *scratch)
{
	key->sock = scratch->kept.sk;
	key->stream = scratch->kept.socket.stream;
	key->kind = scratch->kept.kind;
}

/* Keeps an incomplete message at the end of a transfer for the next one. */
static __noinline int pipeline_keep(struct capture_scratch *scratch, u32 at)
{
	struct network_tail *tail = (struct network_tail *)(scratch->data + CAPTURE_MAX);
	struct network_frames_key key = {};
	u32 size = scratch->walk.have - at;

	if (size > TAIL_MAX) {
		scratch->walk.lost = PIPELINE_CONTINUES;
		return 0;
	}
	pipeline_key(&key, scratch);
	tail->length = size;
	tail->unused = 0;
	if (bpf_probe_read_kernel(tail->data, ((size - 1) & (TAIL_MAX - 1)) + 1, pipeline_data(scratch, at)) ||
	    bpf_map_update_elem(&network_tails, &key, tail, BPF_ANY))
		scratch->walk.lost = 1;
	scratch->walk.frames.head = 1;
	return 0;
}

/*
 * Inserts what was kept of the previous transfer before the window. The last bytes of a full window are left
 * to the next one.
 */
static __noinline int pipeline_join(struct capture_scratch *scratch)
{
	struct capture_walk *walk = &scratch->walk;
	struct network_frames_key key = {};
	struct network_tail *tail;
	u32 have = walk->have, length;

	walk->frames.head = 0;
	pipeline_key(&key, scratch);
	tail = bpf_map_lookup_elem(&network_tails, &key);
	if (!tail || !have) {
		walk->lost = 1;
		return 0;
	}
	if (have > CAPTURE_MAX - TAIL_MAX)
		have = CAPTURE_MAX - TAIL_MAX;
	length = ((tail->length - 1) & (TAIL_MAX - 1)) + 1;
	bpf_probe_read_kernel(scratch->data + CAPTURE_MAX, CAPTURE_SOME(have), scratch->data);
	bpf_probe_read_kernel(scratch->data + length, CAPTURE_SOME(have), scratch->data + CAPTURE_MAX);
	bpf_probe_read_kernel(scratch->data, length, tail->data);
	bpf_map_delete_elem(&network_tails, &key);
	walk->have = have + length;
	walk->keep = length;
	walk->next = 0;
	return 0;
}

/* Removes what was inserted before the window. */
static __noinline int pipeline_part(struct capture_scratch *scratch)
{
	struct capture_walk *walk = &scratch->walk;
	u32 length = walk->keep, have = walk->have - length;

	walk->have = have;
	walk->next = walk->next > length ? walk->next - length : 0;
	walk->keep = 0;
	bpf_probe_read_kernel(scratch->data + CAPTURE_MAX, CAPTURE_SOME(have), pipeline_data(scratch, length));
	bpf_probe_read_kernel(scratch->data, CAPTURE_SOME(have), scratch->data + CAPTURE_MAX);
	return 0;
}

/* Reports the rest of the transfer, as it is unknown where the next message begins. */
static __always_inline int pipeline_give_up(struct capture_scratch *scratch)
{
	struct capture_walk *walk = &scratch->walk;

	walk->frames.followed = 0;
	capture_report_window(scratch, walk->at, walk->have, scratch->kept.length - walk->at);
	return 1;
}

/* Reports the window and moves on by length bytes; returns 1 after the last window. */
static __always_inline int pipeline_report(struct capture_scratch *scratch, u32 length)
{
	struct capture_walk *walk = &scratch->walk;

	capture_report_window(scratch, walk->at, walk->have < length ? walk->have : length, length);
	walk->at += length;
	walk->have = 0;
	return walk->at >= scratch->kept.length;
}

/* Reports a window that was inspected up to the next message; returns 1 if it was the last one. */
static __always_inline int pipeline_window_end(struct capture_scratch *scratch)
{
	struct capture_walk *walk = &scratch->walk;
	u32 rest = scratch->kept.length - walk->at + walk->keep, next = walk->next, have = walk->have;
	bool last = have >= rest;

	if (!walk->lost && last && next < rest)
		pipeline_keep(scratch, next);
	if (walk->keep)
		pipeline_part(scratch);
	rest = scratch->kept.length - walk->at;
	next = walk->next;
	have = walk->have;
	if (walk->lost || (!next && !last))
		return pipeline_give_up(scratch);
	if (last || next >= rest) {
		walk->frames.left = next > rest ? next - rest : 0;
		return pipeline_report(scratch, rest);
	}
	if (capture_limit && next > have)
		next = have; /* the content is needed, too */
	walk->next -= next;
	return pipeline_report(scratch, next);
}

/* Follows the messages of the next window; returns 1 after the last one. */
__noinline int pipeline_window(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct capture_walk *walk;
	u32 i, rest, next;

	if (!scratch)
		return 1;
	walk = &scratch->walk;
	rest = scratch->kept.length - walk->at;
	if (++walk->windows > PIPELINE_WINDOWS) {
		walk->have = 0;
		return pipeline_give_up(scratch);
	}
	if (!walk->have) { /* scratch has some bytes of the first window */
		if (walk->next >= rest && !capture_limit) {
			walk->frames.left = walk->next - rest;
			return pipeline_report(scratch, rest);
		}
		if (walk->next && !capture_limit) {
			next = walk->next;
			walk->next = 0;
			return pipeline_report(scratch, next);
		}
		walk->have = capture_window(slot, walk->at, rest < capture_bytes ? rest : capture_bytes);
		if (scratch->cursor.failed)
			return pipeline_give_up(scratch);
		if (!walk->have)
			return 0;
	}
	if (walk->frames.head)
		pipeline_join(scratch);
	for (i = 0; i < PIPELINE_MESSAGES; i++) {
		if (walk->lost || walk->next >= walk->have)
			break;
		next = pipeline_next(slot, walk->next);
		if (next <= walk->next)
			break;
		walk->next = next;
	}
	return pipeline_window_end(scratch);
}

/*
 * Finds the first message in the saved transfer, by the state of the direction or because the transfer begins
 * one.
 */
static __noinline int pipeline_first(struct capture_scratch *scratch, const struct network_frames *known, u32 begins)
{
	struct capture_kept *kept = &scratch->kept;
	struct network_frames *frames = &scratch->walk.frames;
	u32 missing = kept->position - kept->length - known->position;

	*frames = *known;
	if (frames->followed && !(kept->socket.lost & NETWORK_SEGMENT_UNKNOWN) && (!kept->position || missing <= frames->left)) {
		if (kept->position)
			frames->left -= missing;
		scratch->walk.next = frames->left;
		return 1;
	}
	frames->left = 0;
	frames->head = 0;
	frames->data = 0;
	frames->followed = 1;
	scratch->walk.next = 0;
	return begins;
}

/* Returns the state of the direction; 0: there is none. */
static __noinline struct network_frames *pipeline_known(const struct capture_scratch *scratch)
{
	struct network_frames_key key = {};

	pipeline_key(&key, scratch);
	return bpf_map_lookup_elem(&network_frames, &key);
}

/* Stores the state of the direction. */
static __noinline int pipeline_remember(struct capture_scratch *scratch)
{
	struct network_frames_key key = {};
	struct network_frames *known;

	pipeline_key(&key, scratch);
	known = bpf_map_lookup_elem(&network_frames, &key);
	if (known)
		*known = scratch->walk.frames;
	else
		bpf_map_update_elem(&network_frames, &key, &scratch->walk.frames, BPF_ANY);
	return 0;
}

static const struct network_frames pipeline_unknown;

/*
 * Follows the messages of the saved transfer, of which the slot has kept.want bytes, and reports it.
 * pipelined: messages of the other direction are followed. Returns enum pipeline_result. Nothing is reported
 * if the beginnings of messages are unknown, or if the transfer has at most one message and the connection is
 * not known to be pipelined.
 */
__noinline int pipeline_transfer(u32 slot, u32 begins, u32 pipelined)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	const struct network_frames *unknown = &pipeline_unknown;
	struct network_frames *known;
	struct capture_walk *walk;
	u32 next, i;

	if (!scratch)
		return PIPELINE_NOT_REPORTED;
	walk = &scratch->walk;
	known = pipeline_known(scratch);
	*walk = (struct capture_walk){ .have = scratch->kept.want };
	scratch->cursor = (struct capture_cursor){};
	if (!known || !known->followed)
		begins |= pipelined << 1; /* otherwise it is known to be pipelined */
	else
		begins |= 2;
	if (!pipeline_first(scratch, known ? known : unknown, begins & 1)) {
		if (known)
			known->followed = 0;
		return PIPELINE_NOT_REPORTED;
	}
	if (!(begins & 2)) {
		for (i = 0; i < PIPELINE_MESSAGES; i++) {
			next = pipeline_next(slot, walk->next);
			if (walk->lost || next <= walk->next || next >= scratch->kept.length)
				return PIPELINE_NOT_REPORTED;
			walk->next = next;
			if (!walk->frames.data)
				break;
			if (next >= walk->have)
				return PIPELINE_NOT_REPORTED;
		}
	} else if (walk->next && walk->next >= walk->have && !capture_limit) {
		walk->have = 0; /* only content is there */
	}
	walk->frames.position = scratch->kept.position;
	for (i = 0; i <= PIPELINE_WINDOWS; i++) {
		if (pipeline_window(slot))
			break;
	}
	pipeline_remember(scratch);
	return walk->lost == PIPELINE_CONTINUES ? PIPELINE_CONTINUES : PIPELINE_REPORTED;
}

#endif
