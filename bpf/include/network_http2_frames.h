/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * HTTP/2 (RFC 9113): each direction is followed from frame to frame. All bytes are captured except the content
 * of DATA, of which the length is, and the beginning if bodies are needed. After missing bytes, frames are
 * searched again at the beginning of each transfer.
 */
#ifndef EBPFRECEIVER_NETWORK_HTTP2_FRAMES_H
#define EBPFRECEIVER_NETWORK_HTTP2_FRAMES_H

#include "network_body.h"
#include "network_head.h"
#include "network_http2.h"

/* Captured bytes of DATA: the padding length and the prefix of a gRPC message. */
#define DATA_FIRST 6

/* In place of the offset of the next frame: unknown. */
#define FRAME_UNKNOWN 0xffffffff

/* Windows of one transfer, and frames of each, that are inspected. */
#define FRAME_WINDOWS 128
#define WINDOW_FRAMES 16

/* Transfers in a row without a frame at their beginning after which the connection carries another protocol. */
#define FRAMES_MISSED 64

/* Key of a message on a stream of a connection. */
struct network_contents_key {
	struct network_frames_key frames;
	u32 id; /* stream identifier */
	u32 unused;
};

/* Bytes of messages that may still be captured, if bodies are needed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct network_contents_key);
	__type(value, u32);
} network_contents SEC(".maps");

/* Reports whether bytes before the transfer are missing in which a frame may have begun. */
static __always_inline bool capture_missed_frames(struct network_frames *frames, const struct capture_kept *transfer)
{
	u32 missing = transfer->position - transfer->length - frames->position;

	if (transfer->socket.lost & NETWORK_SEGMENT_UNKNOWN)
		return true;
	if (!transfer->position || !frames->position || !missing)
		return false;
	if (!frames->data || missing > frames->left)
		return true;
	frames->left -= missing;
	return false;
}

/*
 * Stops following frames, as the next one's offset is unknown: reports the rest of the transfer, the first
 * bytes of which are in scratch.
 */
static __noinline int capture_give_up_frames(struct capture_scratch *scratch, struct network_frames *frames, u32 have)
{
	u32 at = scratch->walk.at;

	frames->followed = 0;
	frames->left = 0;
	frames->head = 0;
	capture_report_window(scratch, at, have < CAPTURE_NEXT ? have : CAPTURE_NEXT, scratch->kept.length - at);
	return 1;
}

/* Returns how many bytes may still be captured of the message that the current frame belongs to; 0: none. */
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

/* Reports the content of DATA at the beginning of the window, with its next bytes if they are needed. */
static __noinline int capture_pass_data(struct capture_scratch *scratch, u32 slot, struct network_frames *frames)
{
	u32 at = scratch->walk.at, rest = scratch->kept.length - at, length = frames->left < rest ? frames->left : rest;
	u32 *left = capture_content_left(scratch, frames), want, taken = 0;

	if (left) {
		want = *left < length ? *left : length;
		if (want > CAPTURE_MAX)
			want = CAPTURE_MAX;
		taken = capture_window(slot, at, want);
		*left -= taken;
		if (!scratch->cursor.failed)
			length = taken;
	}
	frames->left -= length;
	scratch->walk.at = at + length;
	return length ? capture_report_window(scratch, at, taken, length) : 0;
}

/* Copies the next window. It is short if the rest is likely to be content of DATA. */
static __always_inline void capture_frame_window(struct capture_scratch *scratch, u32 slot, const struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	u32 rest = scratch->kept.length - walk->at;
	u32 want = frames->left > CAPTURE_NEXT || rest <= capture_bytes ? capture_bytes : CAPTURE_NEXT;

	walk->have = capture_window(slot, walk->at, want < rest ? want : rest);
}

/* Begins a frame at an offset in the window, or before it. Returns 0 if it cannot be one. */
static __always_inline int capture_frame_begins(struct capture_walk *walk, struct network_frames *frames, const struct capture_frame *frame, s32 at)
{
	if (!capture_is_frame(frame)) {
		walk->next = FRAME_UNKNOWN;
		return 0;
	}
	frames->data = frame->kind == FRAME_DATA;
	frames->stream = frame->stream;
	walk->next = at + FRAME_HEAD + frame->length;
	walk->keep = at + FRAME_HEAD + DATA_FIRST;
	return 1;
}

/* Completes a frame header that began in the previous transfer. */
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

/* Finds the offset of the first frame header in the window. */
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
	walk->next = FRAME_UNKNOWN;
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
	frames->misses = 0;
	return 0;
}

/* Continues with the next frame; returns 0 if none begins in the window. */
static __noinline int capture_next_frame(struct capture_scratch *scratch, struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	struct capture_frame frame;
	u32 next = walk->next;

	if (next == FRAME_UNKNOWN || next + FRAME_HEAD > walk->have)
		return 0;
	capture_parse_frame(&frame, scratch->data + (next & (CAPTURE_MAX - 1)));
	return capture_frame_begins(walk, frames, &frame, next);
}

/* Keeps the beginning of a frame header with which the transfer ends. */
static __always_inline void capture_begin_head(struct capture_scratch *scratch, struct network_frames *frames)
{
	const u64 *head = (u64 *)(scratch->data + (scratch->walk.next & (CAPTURE_MAX - 1)));

	frames->head = scratch->walk.have - scratch->walk.next;
	frames->begun[0] = head[0];
	frames->begun[1] = head[1];
}

/* Reports a window whose frames were inspected; returns 1 if it was the last one. */
static __noinline int capture_frames_end(struct capture_scratch *scratch, struct network_frames *frames)
{
	struct capture_walk *walk = &scratch->walk;
	u32 rest = scratch->kept.length - walk->at, next = walk->next, have = walk->have, length = next, keep = have, *left;

	if (next == FRAME_UNKNOWN)
		return capture_give_up_frames(scratch, frames, have);
	frames->left = 0;
	if (next >= have && frames->data) {
		length = next < rest ? next : rest;
		keep = walk->keep;
		left = capture_content_left(scratch, frames);
		if (left) { /* the next window continues with the content */
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
	} else if (!next) { /* a header in more buffers than are inspected */
		return capture_give_up_frames(scratch, frames, have);
	}
	if (keep > have)
		keep = have;
	capture_report_window(scratch, walk->at, keep < length ? keep : length, length);
	walk->at += length;
	return length == rest;
}

/* Inspects the next window of the saved transfer; returns 1 after the last one. */
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
		return capture_give_up_frames(scratch, frames, 0);
	if (frames->data && frames->left) {
		capture_pass_data(scratch, slot, frames);
		return walk->at == scratch->kept.length;
	}
	vector = scratch->cursor.vector;
	capture_frame_window(scratch, slot, frames);
	if (scratch->cursor.failed)
		return capture_give_up_frames(scratch, frames, walk->have);
	if (walk->have < FRAME_HEAD && walk->have < scratch->kept.length - walk->at && scratch->cursor.vector != vector)
		return 0; /* it continues in more buffers than were inspected */
	capture_first_frame(scratch, frames);
	for (i = 0; i < WINDOW_FRAMES; i++) {
		if (!capture_next_frame(scratch, frames))
			break;
	}
	return capture_frames_end(scratch, frames);
}

/* Captures the saved transfer of an HTTP/2 connection. */
__noinline int capture_frames(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct network_frames_key key = {};
	struct network_frames *frames, *known;
	struct capture_kept *transfer;
	bool forgotten;
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
	/* Its entry was evicted. */
	forgotten = transfer->socket.heads & HEAD_FRAMES(transfer->kind) && (!known || (!known->position && transfer->position));
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
	if (forgotten && !frames->followed)
		network_lost(NETWORK_LOST_FRAMES); /* a call that begins with a frame misses nothing */
	if (!frames->followed && ++frames->misses >= FRAMES_MISSED)
		transfer->socket.protocol = NETWORK_UNKNOWN;
	if (known)
		*known = *frames;
	else
		bpf_map_update_elem(&network_frames, &key, frames, BPF_ANY);
	return 0;
}

/* Removes the state of an ended connection. */
static __always_inline void capture_forget_frames(const struct sock *sk, const struct network_socket *socket)
{
	struct network_frames_key key = { .sock = (u64)sk, .stream = socket->stream, .kind = NETWORK_SEGMENT_READ };

	bpf_map_delete_elem(&network_frames, &key);
	key.kind = NETWORK_SEGMENT_WRITE;
	bpf_map_delete_elem(&network_frames, &key);
}

#endif
