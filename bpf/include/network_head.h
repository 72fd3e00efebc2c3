/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How much of an HTTP/1 transfer is captured: a whole window while the head of a message may continue; of a
 * body, its length and enough bytes to know how long a chunk is. The end of a head is searched in requests
 * only, and only if it is not the end of the transfer.
 */
#ifndef EBPFRECEIVER_NETWORK_HEAD_H
#define EBPFRECEIVER_NETWORK_HEAD_H

#include "network_paths.h"

/* What is known of the current message of a direction. */
enum capture_head_state {
	HEAD_PASSED = 0, /* its head has ended */
	HEAD_TINY = 1,   /* the last segment was too short to show what it begins */
	HEAD_ENDS = 2,   /* its head may continue in one more transfer */
	HEAD_GOES_ON = 3, /* its head may continue in two more transfers */
	HEAD_LASTS = 4,   /* its head continues in the next transfers */
	HEAD_FOLLOWED = 5, /* messages are followed: see network_pipeline.h */
};

/* Reports whether the head of a message may continue in the next transfer, as far as is known. */
static __always_inline bool capture_head_continues(u32 state) { return state != HEAD_PASSED && state != HEAD_TINY; }

#define HEAD_BITS 3
#define HEAD_MASK 7
#define HEADS_MASK (HEAD_MASK << HEAD_BITS | HEAD_MASK)

/* A bit of the state of a direction of an HTTP/2 connection: its frames were followed. */
#define HEAD_FRAMES(kind) (1 << HEAD_BITS * ((kind) & 1))

/* A bit of the state of a connection whose requests are not parsed: user space knows. */
#define HEAD_UNPARSED_REPORTED 1

/* The upper bits of struct network_socket.heads: how often user space has refused the connection. */
#define REFUSALS_SHIFT (2 * HEAD_BITS)
#define REFUSALS_MAX 3

/* Enough of a request to compare its path. */
#define CAPTURE_TARGET 80

static __always_inline void capture_set_head_state(struct network_socket *socket, u32 kind, u32 state)
{
	u32 shift = HEAD_BITS * (kind & 1);

	socket->heads = (socket->heads & ~(HEAD_MASK << shift)) | (state & HEAD_MASK) << shift;
}

static __always_inline u32 capture_head_state(const struct network_socket *socket, u32 kind)
{
	return socket->heads >> HEAD_BITS * (kind & 1) & HEAD_MASK;
}

/* Reports whether a segment of size bytes ends as heads do. */
static __always_inline bool capture_ends_head(const struct capture_scratch *scratch, u32 size)
{
	return *(const u32 *)(scratch->data + ((size - 4) & (CAPTURE_MAX - 1))) == 0x0a0d0a0d; /* two line ends */
}

/* Bits of the last parameter of capture_head_after(). */
#define HEAD_BEGINS 1 /* it begins a message, or may do so */
#define HEAD_TO_SERVER 2   /* its direction is that of requests */

/*
 * Minimum length of transfers in which the end of a request's head is searched. Most shorter ones have all of
 * the request.
 */
#define HEAD_LONG 1024

/*
 * Returns the offset after the request whose head ends in the slot, of which taken bytes are valid; 0: no
 * head ends there.
 */
__noinline int capture_request_end(u32 slot, u32 taken)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 end = scratch ? capture_head(scratch, slot, taken) : 0;

	return end ? end + capture_content(scratch) : 0;
}

/*
 * Returns the state after a transfer to a server that is whole in the slot and does not end as heads do.
 * Searches the end of the request, as others may be pipelined after it.
 */
static __noinline u32 capture_request_after(struct capture_scratch *scratch, u32 slot, u32 state, u32 taken, u32 begins)
{
	u32 end = capture_request_end(slot, taken);
	const u8 *data = scratch->data;

	if (end && end < taken && capture_is_letter(data[end & (CAPTURE_MAX - 1)]))
		return HEAD_GOES_ON;
	if (end >= taken && end < LENGTH_MAX)
		return end < taken + CAPTURE_MAX ? HEAD_ENDS : HEAD_PASSED; /* another one may begin in the next transfer */
	if (end)
		return begins || (capture_head_continues(state) && state != HEAD_ENDS) ? HEAD_ENDS : HEAD_PASSED;
	if (begins) /* content may follow after few bytes, too */
		return state == HEAD_TINY && !capture_is_request(data) && !capture_is_rest_of_method(data) ? HEAD_GOES_ON : HEAD_LASTS;
	if (state != HEAD_LASTS)
		return state == HEAD_GOES_ON ? HEAD_ENDS : HEAD_PASSED;
	if ((data[0] == '\n' && !capture_is_letter(data[1])) || (*(const u16 *)data == 0x0a0d && !capture_is_letter(data[2])))
		return HEAD_GOES_ON; /* the head may have ended with that line */
	return HEAD_LASTS;
}

/*
 * Returns the state of a message's head after a transfer, of which taken bytes are in the slot; state is the
 * one before.
 */
__noinline int capture_head_after(u32 slot, u32 state, u32 length, u32 taken, u32 what)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 begins = what & HEAD_BEGINS;

	if (!scratch || length < CAPTURE_FIRST)
		return HEAD_TINY;
	if (!begins && !capture_head_continues(state))
		return HEAD_PASSED;
	if (taken < length || capture_ends_head(scratch, taken))
		return HEAD_PASSED; /* heads longer than a window are cut */
	if (what & HEAD_TO_SERVER && (!begins || taken >= HEAD_LONG))
		return capture_request_after(scratch, slot, state, taken, begins);
	if (begins)
		return HEAD_GOES_ON;
	return state == HEAD_GOES_ON ? HEAD_ENDS : HEAD_PASSED;
}

static __always_inline bool capture_is_to_server(const struct network_socket *socket, u32 kind)
{
	return (kind == NETWORK_SEGMENT_READ) != (socket->role == NETWORK_CLIENT);
}

/* Stores the state of the message's head after a transfer, of which taken bytes are in the slot. */
static __always_inline void capture_note_head(struct network_socket *socket, u32 slot, u32 kind, u32 length, u32 taken, bool begins)
{
	u32 what = (begins ? HEAD_BEGINS : 0) | (capture_is_to_server(socket, kind) ? HEAD_TO_SERVER : 0);

	capture_set_head_state(socket, kind, capture_head_after(slot, capture_head_state(socket, kind), length, taken, what));
}

/* Reports whether user space cannot parse the connection. */
static __always_inline bool capture_is_refused(const struct network_socket *socket)
{
	u32 stream = socket->stream, place = stream & (NETWORK_REFUSED - 1);
	u64 *refused;

	refused = bpf_map_lookup_elem(&network_refused, &place);
	return refused && *refused == stream && stream;
}

/* Reports whether the connection was refused so often that it is not recognised as HTTP/1 any more. */
static __always_inline bool capture_is_no_http1(const struct network_socket *socket) { return socket->heads >> REFUSALS_SHIFT >= REFUSALS_MAX; }

static __always_inline void capture_count_refusal(struct network_socket *socket)
{
	u32 refusals = socket->heads >> REFUSALS_SHIFT;

	socket->heads = (refusals < REFUSALS_MAX ? refusals + 1 : refusals) << REFUSALS_SHIFT;
}

#endif
