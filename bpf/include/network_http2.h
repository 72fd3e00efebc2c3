/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recognises HTTP/2 (RFC 9113): by the connection preface or a HEADERS frame. network_http2_frames.h follows its frames.
 */
#ifndef EBPFRECEIVER_NETWORK_HTTP2_H
#define EBPFRECEIVER_NETWORK_HTTP2_H

#include "network_window.h"

#include <bpf/bpf_endian.h>

#define FRAME_HEAD 9
#define FRAME_LONGEST (1 << 14) /* by default: SETTINGS may allow more */
#define FRAME_RESERVED (1 << 23) /* in the upper bits of the stream identifier */

/* Types of frames; those that belong to a stream, and those that belong to the connection. */
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

/* The connection preface of a client. It does not look like a frame: the length would be 5 MB. */
#define PREFACE_FIRST 0x2a20495250ULL /* "PRI *" */
#define PREFACE_FIRST_MASK 0xffffffffffULL
#define PREFACE_BYTES 24

/* A frame header. */
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

/* Reports whether a frame may have this header at the known beginning of a frame. Unknown types are allowed. */
static __always_inline bool capture_is_frame(const struct capture_frame *frame)
{
	u32 bit = 1U << (frame->kind & 31);

	if (frame->reserved)
		return false;
	if (frame->kind > FRAME_CONTINUATION)
		return frame->length <= FRAME_LONGEST;
	return !(bit & (frame->stream ? FRAMES_OF_CONNECTION : FRAMES_OF_STREAM));
}

/* Reports whether bytes look like a header of a frame that programs send. */
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
 * Recognises HTTP/2 on a connection whose beginning was not captured: a transfer begins with a whole HEADERS
 * frame, or is the header of one, which Go's server reads separately.
 */
static __always_inline bool capture_is_http2_headers(const u8 *data, u32 length)
{
	struct capture_frame frame;

	if (data[0] || data[3] != FRAME_HEADERS)
		return false;
	capture_parse_frame(&frame, data);
	return frame.flags & FRAME_END_HEADERS && (frame.length + FRAME_HEAD <= length || length == FRAME_HEAD) && capture_is_likely_frame(&frame);
}

/* Recognises the beginning of a message: the row of network_protocols.h. */
static __always_inline bool http2_begins(const u8 *data, u32 taken, u32 length, bool stream)
{
	return stream && taken >= FRAME_HEAD && (capture_is_preface(data) || capture_is_http2_headers(data, length));
}

#endif
