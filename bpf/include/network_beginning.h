/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How connections begin where a few bytes do not tell it: with a header of the PROXY
 * protocol before whatever is spoken, or with a request of HTTP/1 by a method that few
 * use. Other protocols of text have lines that look like one up to where it ends.
 */
#ifndef EBPFRECEIVER_NETWORK_BEGINNING_H
#define EBPFRECEIVER_NETWORK_BEGINNING_H

#include "network_paths.h"

#include <bpf/bpf_endian.h>

/*
 * Where the target begins that follows on a method, seen from the request with which the
 * slot's bytes begin, CAPTURE_FIRST of which are known; 0: no method is there, or a longer one.
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

/* A target begins so (RFC 9112, 3.2): a path, "*" or a URL of HTTP. */
static __always_inline bool capture_is_target(u8 first) { return first == '/' || first == '*' || (first | 0x20) == 'h'; }

/* A request begins so, whatever its method. */
static __always_inline bool capture_names_target(const struct capture_scratch *scratch, u32 slot)
{
	u32 at = capture_is_letter(scratch->data[0]) ? capture_target(slot) : 0;

	return at && capture_is_target(scratch->data[at & (CAPTURE_MOST - 1)]);
}

/*
 * What capture_is_http1() takes for a message is one, taken bytes of which are in the slot:
 * other protocols (RTSP, SIP, Redis) have requests by the same methods, but to other targets.
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
	target = scratch->data + (at & (CAPTURE_MOST - 1));
	if (!at || !capture_is_target(*target))
		return 0;
	if (*target == '/' || at + 3 > taken)
		return 1;
	return *target == '*' ? target[1] == ' ' && target[2] == 'H' : (target[1] | 0x20) == 't' && (target[2] | 0x20) == 't';
}

/* Lines are looked through so far. */
#define LINE_MOST 2048
#define LINE_STEPS 64

/* In place of where a line ends: behind what was looked through. */
#define LINE_GOES_ON (-1)

/* Where a line ends in the slot's bytes from at on, of LINE_STEPS words. */
__noinline int capture_line_feed(u32 slot, u32 at)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u64 ends;
	u32 i;

	if (!scratch)
		return LINE_GOES_ON;
	for (i = 0; i < LINE_STEPS; i++) {
		ends = *(const u64 *)(scratch->data + (at & (CAPTURE_MOST - 1))) ^ WORD_OF('\n');
		ends = (ends - WORD_OF(1)) & ~ends & WORD_OF(0x80);
		if (ends) /* ones in all bytes up to it are added up */
			return at + ((((ends & -ends) - 1) & WORD_OF(1)) * WORD_OF(1) >> 56) - 1;
		at += 8;
	}
	return LINE_GOES_ON;
}

/* Takes the beginning of the transfer that is kept in the slot; returns where its first line ends, LINE_GOES_ON if that is not in it. */
__noinline int capture_first_line(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	int end = LINE_GOES_ON;
	u32 taken, at;

	if (!scratch)
		return LINE_GOES_ON;
	taken = capture_take(scratch, slot, &scratch->kept.from, scratch->kept.length < LINE_MOST ? scratch->kept.length : LINE_MOST);
	for (at = 0; at < LINE_MOST; at += LINE_STEPS * 8) {
		if (at >= taken || end != LINE_GOES_ON)
			break;
		end = capture_line_feed(slot, at);
	}
	return end >= 0 && (u32)end < taken ? end : LINE_GOES_ON;
}

/* What is left of a method whose first byte was read by itself, as Go's server does between requests. */
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

/* The first line of the transfer that is kept in the slot ends as that of a request of HTTP/1 does, with the version. */
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
	if (scratch->data[(end - 1) & (CAPTURE_MOST - 1)] == '\r')
		at -= 1;
	version = scratch->data + (at & (CAPTURE_MOST - 1));
	return version[0] == ' ' && (*(const u64 *)(version + 1) & HTTP_1_MASK) == HTTP_1;
}

/*
 * Whether the transfer that is kept in the slot begins a message of HTTP/1, taken bytes of
 * which are there, too: it looks like one by its first word, or else the connection is
 * known to carry HTTP/1, or neither. NETWORK_HTTP1 or NETWORK_UNKNOWN.
 */
__noinline int capture_is_message(u32 slot, u32 taken, u32 looks, u32 known)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);

	if (!scratch)
		return NETWORK_UNKNOWN;
	if (looks)
		return capture_is_known_message(slot, taken) ? NETWORK_HTTP1 : NETWORK_UNKNOWN;
	if (!capture_names_target(scratch, slot))
		return NETWORK_UNKNOWN;
	return known || capture_is_request_line(slot) ? NETWORK_HTTP1 : NETWORK_UNKNOWN;
}

/* A header of the PROXY protocol begins so, in text or in bytes: see haproxy.org/download/2.9/doc/proxy-protocol.txt. */
#define PROXY_TEXT WORD('P', 'R', 'O', 'X')
#define PROXY_BYTES WORD('\r', '\n', '\r', '\n')
#define PROXY_BYTES_REST 0x0a544955510a0d00ULL /* "\0\r\nQUIT\n" */
#define PROXY_BYTES_HEAD 16
#define PROXY_LINE_MOST 107

static __always_inline bool capture_may_be_proxy_header(const u8 *data)
{
	return *(const u32 *)data == PROXY_TEXT || *(const u32 *)data == PROXY_BYTES;
}

/* How long the header is with which the transfer begins that is kept in the slot, CAPTURE_FIRST bytes of which are there, too; 0: it is none. */
__noinline int capture_proxy_header(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	const u8 *data;
	int end;

	if (!scratch)
		return 0;
	data = scratch->data;
	if (*(const u32 *)data == PROXY_BYTES) {
		if (*(const u64 *)(data + 4) != PROXY_BYTES_REST || data[12] >> 4 != 2)
			return 0;
		return PROXY_BYTES_HEAD + ((u32)data[14] << 8 | data[15]);
	}
	if (data[4] != 'Y' || data[5] != ' ')
		return 0;
	end = capture_first_line(slot);
	return end < PROXY_LINE_MOST ? end + 1 : 0;
}

/*
 * Passes over a header of the PROXY protocol with which the transfer begins: what follows is
 * the transfer. Where the header fills it the next one is looked at by itself. What lies in
 * several pieces of memory is not passed over. Returns how many bytes are taken then.
 */
__noinline int capture_pass_proxy_header(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct capture_kept *kept;
	u32 size;

	if (!scratch)
		return 0;
	kept = &scratch->kept;
	size = capture_proxy_header(slot);
	if (size >= kept->length || kept->from.count)
		size = 0;
	kept->from.base += size;
	kept->length -= size;
	*(u64 *)scratch->data = 0;
	scratch->data[8] = 0;
	return capture_take(scratch, slot, &kept->from, kept->length < CAPTURE_FIRST ? kept->length : CAPTURE_FIRST);
}

#endif
