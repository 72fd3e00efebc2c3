/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recognises HTTP/1 messages (RFC 9112): by the first bytes, and requests with rare methods by the whole request
 * line. Other text protocols have lines that differ from a request line only at the end.
 */
#ifndef EBPFRECEIVER_NETWORK_HTTP1_H
#define EBPFRECEIVER_NETWORK_HTTP1_H

#include "network_window.h"

#define WORD(a, b, c, d) ((u32)(a) | (u32)(b) << 8 | (u32)(c) << 16 | (u32)(d) << 24)
#define WORD_OF(c) (0x0101010101010101ULL * (c))

static __always_inline bool capture_is_letter(u8 c) { return c >= 'A' && c <= 'Z'; }

/* Reports whether data begins with an HTTP/1 method and a blank (RFC 9112, 3). */
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

/* Reports whether data begins an HTTP/1 request or response (RFC 9112, 4). */
static __always_inline bool capture_is_http1(const u8 *data)
{
	return capture_is_request(data) ||
	       (*(const u32 *)data == WORD('H', 'T', 'T', 'P') && (*(const u32 *)(data + 4) & 0xffffff) == WORD('/', '1', '.', 0));
}

/* Minimum number of bytes that show an HTTP/1 message. */
#define HTTP1_SHORTEST 8

/*
 * Reports whether a transfer that is too short to show an HTTP/1 message may begin one of the frequent ones.
 * Some servers read the first byte separately, as nginx does before a handshake is complete. If it is none,
 * user space refuses the connection.
 */
static __always_inline bool capture_may_begin_http1(const u8 *data, u32 taken)
{
	u32 first = *(const u32 *)data, known = taken < 4 ? (1U << 8 * taken) - 1 : ~0U;

	return !((first ^ WORD('G', 'E', 'T', ' ')) & known) || !((first ^ WORD('P', 'O', 'S', 'T')) & known) || !((first ^ WORD('H', 'E', 'A', 'D')) & known) ||
	       !((first ^ WORD('P', 'U', 'T', ' ')) & known) || !((first ^ WORD('H', 'T', 'T', 'P')) & known);
}

/* Recognises the beginning of a message with a frequent method, or of a response: the row of network_protocols.h. */
static __always_inline bool http1_begins(const u8 *data, u32 taken, u32 length, bool stream)
{
	return stream && taken >= HTTP1_SHORTEST && capture_is_http1(data);
}

/*
 * Returns the offset of the target after the method of the request in the slot, of which CAPTURE_FIRST bytes
 * are known; 0: there is no method, or a longer one.
 */
__noinline int capture_target(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 i;

	if (!scratch)
		return 0;
	for (i = 0; i < CAPTURE_FIRST - 1; i++) {
		u8 c = scratch->data[i];

		if (c == ' ')
			return i ? i + 1 : 0;
		if (!capture_is_letter(c) && c != '-' && c != '_' && !(i && c >= '0' && c <= '9'))
			return 0;
	}
	return 0;
}

/* Reports whether a target begins with this byte (RFC 9112, 3.2): a path, "*" or a URL. */
static __always_inline bool capture_is_target(u8 first) { return first == '/' || first == '*' || (first | 0x20) == 'h'; }

/* Reports whether a request with any method begins. */
static __always_inline bool capture_names_target(const struct capture_scratch *scratch, u32 slot)
{
	u32 at = capture_is_letter(scratch->data[0]) ? capture_target(slot) : 0;

	return at && capture_is_target(scratch->data[at & (CAPTURE_MAX - 1)]);
}

/*
 * Confirms what capture_is_http1() recognised, by the target: RTSP, SIP and Redis have requests with the same
 * methods and other targets. The slot has taken bytes.
 */
__noinline int capture_is_known_message(u32 slot, u32 taken)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	const u8 *target;
	u32 first, at;

	if (!scratch)
		return 0;
	first = *(u32 *)scratch->data;
	if (first == WORD('C', 'O', 'N', 'N') || first == WORD('H', 'T', 'T', 'P'))
		return 1;
	at = capture_target(slot);
	if (at >= taken)
		return 1;
	target = scratch->data + (at & (CAPTURE_MAX - 1));
	if (!at || !capture_is_target(*target))
		return 0;
	if (*target == '/' || at + 3 > taken)
		return 1;
	return *target == '*' ? target[1] == ' ' && target[2] == 'H' : (target[1] | 0x20) == 't' && (target[2] | 0x20) == 't';
}

/* Lines are searched up to this length. */
#define LINE_MAX 2048
#define LINE_STEPS 64

/* In place of the end of a line: it was not found. */
#define LINE_GOES_ON (-1)

/* Returns the offset of the next line feed in the slot, searching LINE_STEPS words from an offset on. */
__noinline int capture_line_feed(u32 slot, u32 at)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u64 ends;
	u32 i;

	if (!scratch)
		return LINE_GOES_ON;
	for (i = 0; i < LINE_STEPS; i++) {
		ends = *(const u64 *)(scratch->data + (at & (CAPTURE_MAX - 1))) ^ WORD_OF('\n');
		ends = (ends - WORD_OF(1)) & ~ends & WORD_OF(0x80);
		if (ends) /* sums up a one in each byte before the first match */
			return at + ((((ends & -ends) - 1) & WORD_OF(1)) * WORD_OF(1) >> 56) - 1;
		at += 8;
	}
	return LINE_GOES_ON;
}

/*
 * Copies the beginning of the saved transfer to the slot. Returns the offset of the first line feed,
 * LINE_GOES_ON if there is none.
 */
__noinline int capture_first_line(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	int end = LINE_GOES_ON;
	u32 taken, at;

	if (!scratch)
		return LINE_GOES_ON;
	taken = capture_copy(scratch, slot, &scratch->kept.from, scratch->kept.length < LINE_MAX ? scratch->kept.length : LINE_MAX);
	for (at = 0; at < LINE_MAX; at += LINE_STEPS * 8) {
		if (at >= taken || end != LINE_GOES_ON)
			break;
		end = capture_line_feed(slot, at);
	}
	return end >= 0 && (u32)end < taken ? end : LINE_GOES_ON;
}

/*
 * Reports whether data is the rest of a method whose first byte was read separately, as Go's server does
 * between requests.
 */
static __always_inline bool capture_is_rest_of_method(const u8 *data)
{
	u32 first = *(const u32 *)data;

	switch (first) {
	case WORD('O', 'S', 'T', ' '):
	case WORD('E', 'A', 'D', ' '):
	case WORD('A', 'T', 'C', 'H'):
	case WORD('R', 'A', 'C', 'E'):
	case WORD('E', 'L', 'E', 'T'):
	case WORD('P', 'T', 'I', 'O'):
		return true;
	}
	return (first & 0xffffff) == WORD('E', 'T', ' ', 0) || (first & 0xffffff) == WORD('U', 'T', ' ', 0);
}

#define HTTP_1 0x2e312f50545448ULL /* "HTTP/1." */
#define HTTP_1_MASK 0xffffffffffffffULL
#define VERSION_BYTES 9 /* with the blank before it */

/* Reports whether the first line of the saved transfer ends with a version of HTTP/1. */
__noinline int capture_is_request_line(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	const u8 *version;
	int end;
	u32 at;

	if (!scratch || capture_is_rest_of_method(scratch->data))
		return 0;
	end = capture_first_line(slot);
	if (end < CAPTURE_FIRST - 1)
		return 0;
	at = end - VERSION_BYTES;
	if (scratch->data[(end - 1) & (CAPTURE_MAX - 1)] == '\r')
		at -= 1;
	version = scratch->data + (at & (CAPTURE_MAX - 1));
	return version[0] == ' ' && (*(const u64 *)(version + 1) & HTTP_1_MASK) == HTTP_1;
}

/*
 * Reports whether the saved transfer begins an HTTP/1 message. The slot has taken bytes. looks: capture_is_http1()
 * recognised them; known: the connection carries HTTP/1.
 */
__noinline int capture_is_message(u32 slot, u32 taken, u32 looks, u32 known)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);

	if (!scratch)
		return 0;
	if (looks)
		return capture_is_known_message(slot, taken);
	if (!capture_names_target(scratch, slot))
		return 0;
	return known || capture_is_request_line(slot);
}

#endif
