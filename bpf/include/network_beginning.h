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

/* What a protocol is known by. */
#define CAPTURE_FIRST 16

/* Where the target begins that follows on a method, seen from the request; 0: no method is there, or a longer one. */
static __noinline u32 capture_target(const u8 *data)
{
	u32 i;

	for (i = 0; i < CAPTURE_FIRST - 1; i++) {
		u8 c = data[i];

		if (c == ' ')
			return i ? i + 1 : 0;
		if (!capture_is_letter(c) && c != '-' && c != '_' && !(i && c >= '0' && c <= '9'))
			return 0;
	}
	return 0;
}

/* A target begins so (RFC 9112, 3.2): a path, "*" or a URL of HTTP. */
static __always_inline bool capture_is_target(u8 first) { return first == '/' || first == '*' || (first | 0x20) == 'h'; }

/* A request may begin so, whatever its method; CAPTURE_FIRST bytes of it are known. */
static __always_inline bool capture_names_target(const u8 *data)
{
	u32 at = capture_target(data);

	return at && at < CAPTURE_FIRST && capture_is_target(data[at]);
}

/*
 * What capture_is_http1() takes for a message is one, taken bytes of which are known: other
 * protocols (RTSP, SIP, Redis) have requests by the same methods, but to other targets.
 */
static __always_inline bool capture_is_known_message(const u8 *data, u32 taken)
{
	u32 at;

	if (*(const u32 *)data == WORD('C', 'O', 'N', 'N') || *(const u32 *)data == WORD('H', 'T', 'T', 'P'))
		return true;
	at = capture_target(data);
	if (at >= taken)
		return true;
	if (!at || at >= CAPTURE_FIRST - 3)
		return false;
	if (data[at] == '*')
		return at + 3 > taken || (data[at + 1] == ' ' && data[at + 2] == 'H');
	if ((data[at] | 0x20) == 'h')
		return at + 3 > taken || ((data[at + 1] | 0x20) == 't' && (data[at + 2] | 0x20) == 't');
	return data[at] == '/';
}

/* Lines are looked through so far. */
#define LINE_MOST 2048
#define LINE_STEPS 64

/* In place of where a line ends: behind what was looked through. */
#define LINE_GOES_ON 0xffffffff

/* Where a line ends in the slot's bytes from at on, of LINE_STEPS words. */
__noinline u32 capture_line_feed(u32 slot, u32 at)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u64 ends;
	u32 i;

	if (!scratch)
		return LINE_GOES_ON;
	for (i = 0; i < LINE_STEPS; i++) {
		ends = *(const u64 *)(scratch->data + (at & (CAPTURE_MOST - 1))) ^ WORD_OF('\n');
		ends = (ends - WORD_OF(1)) & ~ends & WORD_OF(0x80);
		if (ends) /* ones in all bytes before it are added up */
			return at + ((((ends & -ends) - 1) & WORD_OF(1)) * WORD_OF(1) >> 56) - 1;
		at += 8;
	}
	return LINE_GOES_ON;
}

/* Takes the beginning of a transfer; returns where its first line ends, LINE_GOES_ON if that is not in it. */
static __noinline u32 capture_first_line(struct capture_scratch *scratch, u32 slot, const struct capture_transfer *transfer)
{
	u32 want = transfer->length < LINE_MOST ? transfer->length : LINE_MOST, taken, at, end = LINE_GOES_ON;

	taken = capture_take(scratch, transfer->from, want);
	for (at = 0; at < LINE_MOST; at += LINE_STEPS * 8) {
		if (at >= taken || end != LINE_GOES_ON)
			break;
		end = capture_line_feed(slot, at);
	}
	return end < taken ? end : LINE_GOES_ON;
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

#define HTTP_SLASH 0x2f50545448ULL /* "HTTP/" */
#define VERSION_BYTES 9            /* with the blank before it */

/* The first line of a transfer ends as that of a request of HTTP/1 does, a version that it names; it may begin one. */
static __noinline bool capture_is_request_line(struct capture_scratch *scratch, u32 slot, const struct capture_transfer *transfer)
{
	const u8 *version;
	u32 end, at;

	if (capture_is_rest_of_method(scratch->data))
		return false;
	end = capture_first_line(scratch, slot, transfer);
	if (end == LINE_GOES_ON || end < CAPTURE_FIRST - 1)
		return false;
	at = end - VERSION_BYTES;
	if (scratch->data[(end - 1) & (CAPTURE_MOST - 1)] == '\r')
		at -= 1;
	version = scratch->data + (at & (CAPTURE_MOST - 1));
	return version[0] == ' ' && (*(const u64 *)(version + 1) & 0xffffffffffffffULL) == (HTTP_SLASH | (u64)'1' << 40 | (u64)'.' << 48);
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

/* How long the header is with which a transfer begins, CAPTURE_FIRST bytes of which are in scratch; 0: it is none. */
static __noinline u32 capture_proxy_header(struct capture_scratch *scratch, u32 slot, const struct capture_transfer *transfer)
{
	const u8 *data = scratch->data;
	u32 end;

	if (*(const u32 *)data == PROXY_BYTES) {
		if (*(const u64 *)(data + 4) != PROXY_BYTES_REST || data[12] >> 4 != 2)
			return 0;
		return PROXY_BYTES_HEAD + ((u32)data[14] << 8 | data[15]);
	}
	if (data[4] != 'Y' || data[5] != ' ')
		return 0;
	end = capture_first_line(scratch, slot, transfer);
	return end < PROXY_LINE_MOST ? end + 1 : 0;
}

/*
 * Passes over a header of the PROXY protocol with which the transfer begins: what follows is
 * the transfer. Returns whether it did; where the header fills it the next one is looked at
 * by itself. What lies in several pieces of memory is not passed over.
 */
static __noinline bool capture_pass_proxy_header(struct capture_scratch *scratch, u32 slot, struct capture_transfer *transfer)
{
	struct network_source *from = (struct network_source *)transfer->from;
	u32 size = capture_proxy_header(scratch, slot, transfer);

	if (!size || size >= transfer->length || from->count)
		return false;
	from->base += size;
	transfer->length -= size;
	return true;
}

#endif
