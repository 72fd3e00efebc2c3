/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The protocols that are recognised: which bytes begin a message, and how many bytes of a transfer are captured.
 * A new protocol is a value of enum network_protocol, a header with its recogniser, and a row here.
 */
#ifndef EBPFRECEIVER_NETWORK_PROTOCOLS_H
#define EBPFRECEIVER_NETWORK_PROTOCOLS_H

#include "network_dns.h"
#include "network_http1.h"
#include "network_http2.h"

/* Captured bytes of a longer transfer that continues an HTTP/1 message: enough to know how long a chunk is. */
#define CAPTURE_CHUNK 32

/*
 * ROW(protocol, begins, beginning, whole, part). They are tried in this order.
 *   begins     reports whether the first bytes of a transfer, of which taken are valid, begin a message:
 *              bool (const u8 *data, u32 taken, u32 length, bool stream). CAPTURE_FIRST bytes may be read.
 *   beginning  captured bytes of a transfer that begins a message, at most capture_bytes
 *   whole      a transfer that begins no message is captured whole if it has no more bytes,
 *   part       and otherwise so many of its bytes are
 * HTTP/1 also captures the heads that continue in a transfer (network_head.h). HTTP/2 captures by frame instead
 * (network_http2_frames.h).
 */
#define CAPTURE_PROTOCOLS(ROW) \
	ROW(NETWORK_HTTP1, http1_begins, CAPTURE_MAX, CAPTURE_NEXT, CAPTURE_CHUNK) \
	ROW(NETWORK_HTTP2, http2_begins, CAPTURE_MAX, CAPTURE_NEXT, CAPTURE_NEXT) \
	ROW(NETWORK_DNS, dns_begins, CAPTURE_MAX, CAPTURE_NEXT, CAPTURE_NEXT)

/* The protocols to recognise, one bit for each of enum network_protocol. */
volatile const u32 capture_protocols;

/* Returns the protocol whose message begins in data, of which taken bytes are valid; NETWORK_UNKNOWN: none. */
static __always_inline u32 capture_protocol_of(const u8 *data, u32 taken, u32 length, bool stream)
{
#define ROW_BEGINS(protocol, begins, beginning, whole, part) \
	if (capture_protocols & (1 << protocol) && begins(data, taken, length, stream)) \
		return protocol;
	CAPTURE_PROTOCOLS(ROW_BEGINS)
	return NETWORK_UNKNOWN;
}

/* Returns how many bytes are captured of a transfer that begins no message. */
static __always_inline u32 capture_part(u32 known, u32 length)
{
#define ROW_PART(protocol, begins, beginning, whole, part) \
	case protocol: \
		return length <= (whole) ? (whole) : (part);
	switch (known) {
		CAPTURE_PROTOCOLS(ROW_PART)
	}
	return CAPTURE_NEXT;
}

/* Returns how many bytes are captured of a transfer that begins a message. Rows with CAPTURE_MAX cost the verifier nothing. */
static __always_inline u32 capture_beginning(u32 known)
{
#define ROW_BEGINNING(protocol, begins, beginning, whole, part) \
	if ((beginning) < CAPTURE_MAX && known == protocol && (beginning) < all) \
		all = (beginning);
	u32 all = capture_bytes;

	CAPTURE_PROTOCOLS(ROW_BEGINNING)
	return all;
}

#endif
