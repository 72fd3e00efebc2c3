/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What HTTP/2 carries (RFC 9113): each direction is followed from frame to frame, so that
 * all but the content of DATA leaves the kernel, and of that its length; its beginning, too,
 * where bodies are wanted. Where bytes were
 * not seen in which a frame begins, frames are looked for again at the beginning of each
 * transfer.
 */
#ifndef EBPFRECEIVER_NETWORK_HTTP2_H
#define EBPFRECEIVER_NETWORK_HTTP2_H

#include "network_body.h"
#include "network_head.h"

#include <bpf/bpf_endian.h>

#define FRAME_HEAD 9
#define FRAME_LONGEST (1 << 14) /* unless settings allow more */
#define FRAME_RESERVED (1 << 23) /* in the upper bits of the stream */

/* Types of frames, those that belong to a stream, and those that belong to none. */
#define FRAME_DATA 0
#define FRAME_HEADERS 1
#define FRAME_PRIORITY 2
#define FRAME_RESET 3
#define FRAME_SETTINGS 4
#define FRAME_PUSH_PROMISE 5
#define FRAME_PING 6
#define FRAME_GOAWAY 7
#define FRAME_WINDOW_UPDATE 8
#define FRAME_CONTINUATION 9
#define FRAMES_OF_STREAM \
	(1 << FRAME_DATA | 1 << FRAME_HEADERS | 1 << FRAME_PRIORITY | 1 << FRAME_RESET | 1 << FRAME_PUSH_PROMISE | 1 << FRAME_CONTINUATION)
#define FRAMES_OF_CONNECTION (1 << FRAME_SETTINGS | 1 << FRAME_PING | 1 << FRAME_GOAWAY)

#define FRAME_END_HEADERS 0x4
#define FRAME_HEADERS_FLAGS 0x2d

/* What a client says first begins like no frame: its length would be 5 MB. */
#define PREFACE_FIRST 0x2a20495250ULL /* "PRI *" */
#define PREFACE_FIRST_MASK 0xffffffffffULL
#define PREFACE_BYTES 24

/* What is taken of DATA: the length of its padding, and what precedes a message of gRPC. */
#define DATA_FIRST 6

/* In place of where the next frame begins: nobody knows. */
#define FRAME_LOST 0xffffffff

/* Windows that are looked at of one transfer, and frames in each. */
#define FRAME_WINDOWS 128
#define WINDOW_FRAMES 16

/* Transfers in a row without a frame at their beginning, after which a connection carries something else. */
#define FRAMES_ASTRAY 64

/* A message on a stream of a connection. */
struct network_contents_key {
	struct network_frames_key frames;
	u32 id; /* of the stream */
	u32 unused;
};

/* Bytes of messages that may still leave the kernel, where bodies are wanted. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* by the loader */
	__type(key, struct network_contents_key);
	__type(value, u32);
} network_contents SEC(".maps");

/* The head of a frame. */
struct capture_frame {
	u32 length, kind, flags, reserved, stream;
};

static __always_inline void capture_parse_frame(struct capture_frame *frame, const u8 *head)
{
	u64 first = bpf_be64_to_cpu(*(const u64 *)head);

	frame->length = first >> 40;
	frame->kind = (u8)(first >> 32);
	frame->flags = (u8)(first >> 24);
	frame->reserved = first & FRAME_RESERVED;
	frame->stream = (u32)(first & (FRAME_RESERVED - 1)) << 8 | head[8];
}

/* A frame may have this head where one is known to begin. Types that are not known may come, too. */
static __always_inline bool capture_is_frame(const struct capture_frame *frame)
{
	u32 bit = 1U << (frame->kind & 31);

	if (frame->reserved)
		return false;
	if (frame->kind > FRAME_CONTINUATION)
		return frame->length <= FRAME_LONGEST;
	return !(bit & (frame->stream ? FRAMES_OF_CONNECTION : FRAMES_OF_STREAM));
}

/* Bytes of which nothing is known look like a frame that programs send. */
static __always_inline bool capture_is_likely_frame(const struct capture_frame *frame)
{
	u32 flags = 0, least = 0, most = FRAME_LONGEST;

	switch (frame->kind) {
	case FRAME_DATA:
		flags = 0x9;
		break;
	case FRAME_HEADERS:
		flags = FRAME_HEADERS_FLAGS;
		least = 1;
		break;
	case FRAME_PRIORITY:
		least = most = 5;
		break;
	case FRAME_RESET:
	case FRAME_WINDOW_UPDATE:
		least = most = 4;
		break;
	case FRAME_SETTINGS:
		flags = 0x1;
		most = 64 * 6;
		break;
	case FRAME_PUSH_PROMISE:
		flags = 0xc;
		least = 5;
		break;
	case FRAME_PING:
		flags = 0x1;
		least = most = 8;
		break;
	case FRAME_GOAWAY:
		least = 8;
		break;
	case FRAME_CONTINUATION:
		flags = FRAME_END_HEADERS;
		break;
	default:
		return false;
	}
	return capture_is_frame(frame) && !(frame->flags & ~flags) && frame->length >= least && frame->length <= most &&
	       (!frame->stream || frame->stream & 1);
}

static __always_inline bool capture_is_preface(const u8 *data)
{
	return (*(const u64 *)data & PREFACE_FIRST_MASK) == PREFACE_FIRST;
}

/*
 * A connection whose beginning was not seen carries HTTP/2: a transfer begins with the
 * fields of a message, whole, or is their frame's head, which Go's server reads by itself.
 */
static __always_inline bool capture_is_http2_headers(const u8 *data, u32 length)
{
	struct capture_frame frame;

	if (data[0] || data[3] != FRAME_HEADERS)
		return false;
	capture_parse_frame(&frame, data);
	return frame.flags & FRAME_END_HEADERS && (frame.length + FRAME_HEAD <= length || length == FRAME_HEAD) && capture_is_likely_frame(&frame);
}

/* Bytes before the transfer were not seen, in which a frame may have begun. */
static __always_inline bool capture_missed_frames(struct network_frames *frames, const struct capture_kept *transfer)
{
	u32 missing = transfer->position - transfer->length - frames->position;

	if (transfer->socket.lost & NETWORK_PIECE_UNKNOWN)
		return true;
	if (!transfer->position || !frames->position || !missing)
		return false;
	if (!frames->data || missing > frames->left)
		return true;
	frames->left -= missing;
	return false;
}

/* Nobody knows where the next frame begins: tells of the rest of the transfer, the first bytes of which are in scratch. */
static __noinline int capture_lose_frames(struct capture_scratch *scratch, struct network_frames *frames, u32 have)
{
	u32 at = scratch->walk.at;

	frames->followed = 0;
	frames->left = 0;
	frames->head = 0;
	capture_tell_window(scratch, at, have < CAPTURE_NEXT ? have : CAPTURE_NEXT, scratch->kept.length - at);
	return 1;
}

/* How many bytes may still leave the kernel of the message that the frame under way belongs to; 0: none. */
static __noinline u32 *capture_content_left(const struct capture_scratch *scratch, const struct network_frames *frames)
{
	struct network_contents_key key = {};
	u32 *left, all = capture_limit;

	if (!all)
		return 0;
	key.frames.sock = scratch->kept.sk;
	key.frames.stream = scratch->kept.socket.stream;
	key.frames.kind = scratch->kept.kind;
	key.id = frames->stream;
	left = bpf_map_lookup_elem(&network_contents, &key);
	if (!left) {
		bpf_map_update_elem(&network_contents, &key, &all, BPF_ANY);
		left = bpf_map_lookup_elem(&network_contents, &key);
	}
	return left && *left ? left : 0;
}

/* The content of DATA goes on at the beginning of the window: tells of it, with its next bytes if they are wanted. */
static __noinline int capture_pass_data(struct capture_scratch *scratch, u32 slot, struct network_frames *frames)
{
	u32 at = scratch->walk.at, rest = scratch->kept.length - at, length = frames->left < rest ? frames->left : rest;
	u32 *left = capture_content_left(scratch, frames), want, taken = 0;

	if (left) {
		want = *left < length ? *left : length;
		if (want > CAPTURE_MOST)
			want = CAPTURE_MOST;
		taken = capture_window(slot, at, want);
		*left -= taken;
		if (!scratch->cursor.failed)
			length = taken;
	}
	frames->left -= length;
	scratch->walk.at = at + length;
	return length ? capture_tell_window(scratch, at, taken, length) : 0;
}

/* Takes the next window. It need not have much: most that is long is content of DATA. */
static __always_inline void capture_frame_window(struct capture_scratch *scratch, u32 slot, const struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	u32 rest = scratch->kept.length - walk->at;
	u32 want = frames->left > CAPTURE_NEXT || rest <= capture_bytes ? capture_bytes : CAPTURE_NEXT;

	walk->have = capture_window(slot, walk->at, want < rest ? want : rest);
}

/* A frame begins where the window has it, or before it. Returns 0 if it may be none. */
static __always_inline int capture_frame_begins(struct capture_walk *walk, struct network_frames *frames, const struct capture_frame *frame, s32 at)
{
	if (!capture_is_frame(frame)) {
		walk->next = FRAME_LOST;
		return 0;
	}
	frames->data = frame->kind == FRAME_DATA;
	frames->stream = frame->stream;
	walk->next = at + FRAME_HEAD + frame->length;
	walk->keep = at + FRAME_HEAD + DATA_FIRST;
	return 1;
}

/* A head that began in the transfer before goes on at the beginning of the window. */
static __always_inline void capture_join_head(struct capture_scratch *scratch, struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	u32 begun = frames->head & 15;
	struct capture_frame frame;
	u64 *rest;

	walk->joined[0] = frames->begun[0];
	walk->joined[1] = frames->begun[1];
	rest = (u64 *)((u8 *)walk->joined + begun);
	rest[0] = *(u64 *)scratch->data;
	rest[1] = *(u64 *)(scratch->data + 8);
	if (begun + walk->have < FRAME_HEAD) {
		frames->begun[0] = walk->joined[0];
		frames->begun[1] = walk->joined[1];
		frames->head = begun + walk->have;
		frames->data = 0;
		walk->next = walk->have;
		return;
	}
	frames->head = 0;
	capture_parse_frame(&frame, (u8 *)walk->joined);
	capture_frame_begins(walk, frames, &frame, -(s32)begun);
}

/* Finds where the first head begins in the window. */
static __noinline int capture_first_frame(struct capture_scratch *scratch, struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	struct capture_frame frame;

	if (frames->head) {
		capture_join_head(scratch, frames);
		return 0;
	}
	walk->next = frames->left;
	if (frames->followed)
		return 0;
	walk->next = FRAME_LOST;
	if (walk->have < FRAME_HEAD)
		return 0;
	if (capture_is_preface(scratch->data)) {
		walk->next = PREFACE_BYTES;
	} else {
		capture_parse_frame(&frame, scratch->data);
		if (!capture_is_likely_frame(&frame))
			return 0;
		walk->next = 0;
	}
	frames->followed = 1;
	frames->data = 0;
	frames->astray = 0;
	return 0;
}

/* Goes on to the next frame; returns 0 if none begins in the window. */
static __noinline int capture_next_frame(struct capture_scratch *scratch, struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	struct capture_frame frame;
	u32 next = walk->next;

	if (next == FRAME_LOST || next + FRAME_HEAD > walk->have)
		return 0;
	capture_parse_frame(&frame, scratch->data + (next & (CAPTURE_MOST - 1)));
	return capture_frame_begins(walk, frames, &frame, next);
}

/* The transfer ends within a head. */
static __always_inline void capture_begin_head(struct capture_scratch *scratch, struct network_frames *frames)
{
	const u64 *head = (u64 *)(scratch->data + (scratch->walk.next & (CAPTURE_MOST - 1)));

	frames->head = scratch->walk.have - scratch->walk.next;
	frames->begun[0] = head[0];
	frames->begun[1] = head[1];
}

/* Tells of a window whose frames were looked at; returns 1 if it was the last one. */
static __noinline int capture_frames_end(struct capture_scratch *scratch, struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	u32 rest = scratch->kept.length - walk->at, next = walk->next, have = walk->have, length = next, keep = have, *left;

	if (next == FRAME_LOST)
		return capture_lose_frames(scratch, frames, have);
	frames->left = 0;
	if (next >= have && frames->data) {
		length = next < rest ? next : rest;
		keep = walk->keep;
		left = capture_content_left(scratch, frames);
		if (left) { /* the next window goes on with the content */
			length = have;
			keep = *left > keep ? *left : keep;
			*left -= *left < have ? *left : have;
		}
		frames->left = next - length;
	} else if (next >= have) {
		length = have;
		frames->left = next - have;
	} else if (have == rest && next + FRAME_HEAD > have) {
		capture_begin_head(scratch, frames);
		length = have;
	} else if (!next) { /* a head in more pieces of memory than are looked at */
		return capture_lose_frames(scratch, frames, have);
	}
	if (keep > have)
		keep = have;
	capture_tell_window(scratch, walk->at, keep < length ? keep : length, length);
	walk->at += length;
	return length == rest;
}

/* Goes on with the next window of the transfer in the slot; returns 1 after the last one. */
__noinline int capture_follow(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_frames *frames;
	struct capture_walk *walk;
	u32 vector, i;

	if (!scratch)
		return 1;
	walk = &scratch->walk;
	frames = &walk->frames;
	if (++walk->windows > FRAME_WINDOWS)
		return capture_lose_frames(scratch, frames, 0);
	if (frames->data && frames->left) {
		capture_pass_data(scratch, slot, frames);
		return walk->at == scratch->kept.length;
	}
	vector = scratch->cursor.vector;
	capture_frame_window(scratch, slot, frames);
	if (scratch->cursor.failed)
		return capture_lose_frames(scratch, frames, walk->have);
	if (walk->have < FRAME_HEAD && walk->have < scratch->kept.length - walk->at && scratch->cursor.vector != vector)
		return 0; /* it goes on in more pieces of memory than were looked at */
	capture_first_frame(scratch, frames);
	for (i = 0; i < WINDOW_FRAMES; i++) {
		if (!capture_next_frame(scratch, frames))
			break;
	}
	return capture_frames_end(scratch, frames);
}

/* The transfer in the slot, on a connection that carries HTTP/2. */
__noinline int capture_frames(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_frames_key key = {};
	struct network_frames *frames, *known;
	struct capture_kept *transfer;
	u32 i;

	if (!scratch)
		return 0;
	transfer = &scratch->kept;
	key.sock = transfer->sk;
	key.stream = transfer->socket.stream;
	key.kind = transfer->kind;
	known = bpf_map_lookup_elem(&network_frames, &key);
	scratch->cursor = (struct capture_cursor){};
	scratch->walk = (struct capture_walk){};
	frames = &scratch->walk.frames;
	if (known)
		*frames = *known;
	if (transfer->socket.heads & HEAD_FRAMES(transfer->kind) && (!known || (!known->position && transfer->position)))
		network_lost(NETWORK_LOST_FRAMES); /* others took its place */
	if (capture_missed_frames(frames, transfer)) {
		frames->followed = 0;
		frames->left = 0;
		frames->head = 0;
	}
	frames->position = transfer->position;
	for (i = 0; i <= FRAME_WINDOWS; i++) {
		if (capture_follow(slot))
			break;
	}
	if (!frames->followed && ++frames->astray >= FRAMES_ASTRAY)
		transfer->socket.protocol = NETWORK_UNKNOWN;
	if (known)
		*known = *frames;
	else
		bpf_map_update_elem(&network_frames, &key, frames, BPF_ANY);
	return 0;
}

/* The connection is over. */
static __always_inline void capture_forget_frames(const struct sock *sk, const struct network_socket *socket)
{
	struct network_frames_key key = { .sock = (u64)sk, .stream = socket->stream, .kind = NETWORK_PIECE_READ };

	bpf_map_delete_elem(&network_frames, &key);
	key.kind = NETWORK_PIECE_WRITE;
	bpf_map_delete_elem(&network_frames, &key);
}

#endif
