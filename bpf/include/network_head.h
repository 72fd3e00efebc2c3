/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How much of a transfer of HTTP/1 leaves the kernel: all of a window while the head of a
 * message may go on, of its body the length and so many bytes as say how long a chunk is.
 * Where heads end is looked for in requests alone, and in these where they do not end with
 * their transfer: in most cases it is known without.
 */
#ifndef EBPFRECEIVER_NETWORK_HEAD_H
#define EBPFRECEIVER_NETWORK_HEAD_H

#include "network_beginning.h"

/* What is known of the message under way in one direction. */
enum capture_head_state {
	HEAD_PASSED = 0, /* its head has ended */
	HEAD_TINY = 1,   /* the last piece was too short to tell what it begins */
	HEAD_ENDS = 2,   /* its head may go on in one more transfer */
	HEAD_GOES_ON = 3, /* or in two */
	HEAD_LASTS = 4,   /* it does go on, in as many as it takes */
};

#define HEAD_BITS 3
#define HEAD_MASK 7
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

/* What a transfer is, for capture_head_after(): a bit for each. */
#define HEAD_BEGINS 1 /* it begins a message, or may do so */
#define HEAD_ASKS 2   /* it goes to a server */

/* Of transfers that begin a request the head's end is looked for in those that have more: most have all of the request. */
#define HEAD_LONG 1024

/* Where the request ends whose head ends in the slot's bytes, of which so many are taken; 0: it ends in none of them. */
__noinline int capture_request_end(u32 slot, u32 taken)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 end = scratch ? capture_head(scratch, slot, taken) : 0;

	return end ? end + capture_content(scratch) : 0;
}

/*
 * What is known behind a transfer to a server that is in the slot as a whole, and does not end
 * as heads do: where the request ends whose head ends in it is looked for, as others may be
 * pipelined behind it.
 */
static __noinline u32 capture_request_after(struct capture_scratch *scratch, u32 slot, u32 state, u32 taken, u32 begins)
{
	u32 end = capture_request_end(slot, taken);
	const u8 *data = scratch->data;

	if (end && end < taken && capture_is_letter(data[end & (CAPTURE_MOST - 1)]))
		return HEAD_GOES_ON;
	if (end >= taken && end < LENGTH_MOST)
		return end < taken + CAPTURE_MOST ? HEAD_ENDS : HEAD_PASSED; /* another one may begin in the next transfer */
	if (end)
		return begins || state >= HEAD_GOES_ON ? HEAD_ENDS : HEAD_PASSED;
	if (begins) /* content may follow on a few bytes, too */
		return state == HEAD_TINY && !capture_is_request(data) && !capture_is_rest_of_method(data) ? HEAD_GOES_ON : HEAD_LASTS;
	if (state != HEAD_LASTS)
		return state == HEAD_GOES_ON ? HEAD_ENDS : HEAD_PASSED;
	if ((data[0] == '\n' && !capture_is_letter(data[1])) || (*(const u16 *)data == 0x0a0d && !capture_is_letter(data[2])))
		return HEAD_GOES_ON; /* it may have ended with that line */
	return HEAD_LASTS;
}

/* What is known of a message's head behind a transfer, of which taken bytes are in the slot; state is what was before. */
__noinline int capture_head_after(u32 slot, u32 state, u32 length, u32 taken, u32 what)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 begins = what & HEAD_BEGINS;

	if (!scratch || length < CAPTURE_FIRST)
		return HEAD_TINY;
	if (!begins && state < HEAD_ENDS)
		return HEAD_PASSED;
	if (taken < length || capture_ends_head(scratch, taken))
		return HEAD_PASSED; /* heads that are longer than a window are cut */
	if (what & HEAD_ASKS && (!begins || taken >= HEAD_LONG))
		return capture_request_after(scratch, slot, state, taken, begins);
	if (begins)
		return HEAD_GOES_ON;
	return state == HEAD_GOES_ON ? HEAD_ENDS : HEAD_PASSED;
}

/* Notes what a transfer leaves of a message's head to come, of which taken bytes are in the slot. */
static __always_inline void capture_note_head(struct network_socket *socket, u32 slot, u32 kind, u32 length, u32 taken, bool begins)
{
	u32 what = (begins ? HEAD_BEGINS : 0) | ((kind == NETWORK_PIECE_READ) != (socket->role == NETWORK_CLIENT) ? HEAD_ASKS : 0);
	u32 state = capture_head_after(slot, capture_head_state(socket, kind), length, taken, what), shift = HEAD_BITS * (kind & 1);

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
