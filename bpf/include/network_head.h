/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How much of a transfer of HTTP/1 leaves the kernel: all of a window while the head of a
 * message may go on, of its body the length and so many bytes as say how long a chunk is.
 * Where heads end is not looked for: in most cases it is known without.
 */
#ifndef EBPFRECEIVER_NETWORK_HEAD_H
#define EBPFRECEIVER_NETWORK_HEAD_H

#include "network_window.h"

/* What is known of the message under way in one direction. */
enum capture_head_state {
	HEAD_PASSED = 0, /* its head has ended */
	HEAD_TINY = 1,   /* the last piece was too short to tell what it begins */
	HEAD_ENDS = 2,   /* its head may go on in one more transfer */
	HEAD_GOES_ON = 3, /* or in two */
};

#define HEAD_BITS 2
#define HEAD_MASK 3
#define HEADS_MASK (HEAD_MASK << HEAD_BITS | HEAD_MASK)

/* The same bits of a connection of HTTP/2: frames of the direction were followed. */
#define HEAD_FRAMES(kind) (1 << HEAD_BITS * ((kind) & 1))

/* The upper bits of struct network_socket.heads: how often user space has refused the connection. */
#define REFUSALS_SHIFT (2 * HEAD_BITS)
#define REFUSALS_MOST 3

/* Of a transfer that is neither longer than CAPTURE_NEXT nor begins a message all is taken, as it may have chunks and their end; of others this. */
#define CAPTURE_CHUNK 32
/* As much as a request to some paths is known by. */
#define CAPTURE_TARGET 80

static __always_inline u32 capture_head_state(const struct network_socket *socket, u32 kind)
{
	return socket->heads >> HEAD_BITS * (kind & 1) & HEAD_MASK;
}

/* A piece of memory ends as heads do. */
static __always_inline bool capture_ends_head(const struct capture_scratch *scratch, u32 size)
{
	return *(const u32 *)(scratch->data + ((size - 4) & (CAPTURE_MOST - 1))) == 0x0a0d0a0d; /* two line ends */
}

/* What is known of a message's head behind a transfer, of which taken bytes are in the slot; state is what was before. */
__noinline int capture_head_after(u32 slot, u32 state, u32 length, u32 taken, u32 begins)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);

	if (!scratch || length < CAPTURE_FIRST)
		return HEAD_TINY;
	if (!begins && state != HEAD_GOES_ON)
		return HEAD_PASSED;
	if (taken < length || capture_ends_head(scratch, taken))
		return HEAD_PASSED; /* heads that are longer than a window are cut */
	return begins ? HEAD_GOES_ON : HEAD_ENDS;
}

/* Notes what a transfer leaves of a message's head to come, of which taken bytes are in the slot. */
static __always_inline void capture_note_head(struct network_socket *socket, u32 slot, u32 kind, u32 length, u32 taken, bool begins)
{
	u32 state = capture_head_after(slot, capture_head_state(socket, kind), length, taken, begins), shift = HEAD_BITS * (kind & 1);

	socket->heads = (socket->heads & ~(HEAD_MASK << shift)) | (state & HEAD_MASK) << shift;
}

/* User space makes nothing of what the connection carries. */
static __always_inline bool capture_is_refused(const struct network_socket *socket)
{
	u32 stream = socket->stream, place = stream & (NETWORK_REFUSED - 1);
	u64 *refused;

	refused = bpf_map_lookup_elem(&network_refused, &place);
	return refused && *refused == stream && stream;
}

/* It was so often refused that HTTP/1 is not looked for any more. */
static __always_inline bool capture_is_no_http1(const struct network_socket *socket) { return socket->heads >> REFUSALS_SHIFT >= REFUSALS_MOST; }

static __always_inline void capture_count_refusal(struct network_socket *socket)
{
	u32 refusals = socket->heads >> REFUSALS_SHIFT;

	socket->heads = (refusals < REFUSALS_MOST ? refusals + 1 : refusals) << REFUSALS_SHIFT;
}

#endif
