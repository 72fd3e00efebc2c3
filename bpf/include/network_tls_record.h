/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recognises TLS: a transfer begins with a record (RFC 8446, 5.1). MySQL packets and MongoDB messages of 788
 * to 791 bytes begin in the same way, as their lengths come first. So the length must be valid for the
 * record's type, and what follows the record in the transfer must be another record.
 */
#ifndef EBPFRECEIVER_NETWORK_TLS_RECORD_H
#define EBPFRECEIVER_NETWORK_TLS_RECORD_H

#include "network_window.h"

/* Types of records. */
#define TLS_CHANGE 20
#define TLS_ALERT 21
#define TLS_HANDSHAKE 22
#define TLS_DATA 23

#define TLS_HEAD 5
/* Length of an unencrypted alert, and minimum length of encrypted content: a byte and a tag of 16. */
#define TLS_ALERT_BYTES 2
#define TLS_SEALED 17
/* Length of the type and length of a handshake message. */
#define TLS_MESSAGE 4
#define TLS_CLIENT_HELLO 1
/* Types of handshake messages, one bit each: RFC 8446, 4, and those of older versions and extensions. */
#define TLS_MESSAGES 0x03f1f937

/* Reports whether data may begin a record. */
static __always_inline bool capture_is_tls(const u8 *data) { return data[0] >= TLS_CHANGE && data[0] <= TLS_DATA && data[1] == 3 && data[2] <= 4; }

static __always_inline u32 capture_record_length(const u8 *data) { return (u32)data[3] << 8 | data[4]; }

/* Reports whether the length is valid for a type of record. */
static __always_inline bool capture_is_record_length(u32 type, u32 length)
{
	if (length > (1 << 14) + 2048)
		return false;
	switch (type) {
	case TLS_CHANGE:
		return length == 1;
	case TLS_ALERT:
		return length == TLS_ALERT_BYTES || length >= TLS_SEALED;
	case TLS_HANDSHAKE:
		return length >= TLS_MESSAGE;
	}
	return length >= TLS_SEALED;
}

/* Reports whether a transfer is one ClientHello (RFC 8446, 4), as the first one through a tunnel by CONNECT. */
static __always_inline bool capture_is_hello(const u8 *data, u32 length)
{
	u32 hello = (u32)data[6] << 16 | (u32)data[7] << 8 | data[8];

	return capture_is_tls(data) && data[0] == TLS_HANDSHAKE && data[5] == TLS_CLIENT_HELLO && hello + TLS_HEAD + TLS_MESSAGE == length;
}

/*
 * Reports whether the saved transfer begins with a record; its first bytes are in the slot and may begin one.
 * Programs read the header of a record separately, or all that is available; the headers of other protocols
 * are longer.
 */
__noinline int capture_is_record(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 type, end, length;
	const u8 *data;

	if (!scratch)
		return 0;
	data = scratch->data;
	length = scratch->kept.length;
	type = data[0];
	if (!capture_is_record_length(type, capture_record_length(data)))
		return 0;
	if (type == TLS_HANDSHAKE && length > TLS_HEAD && (data[TLS_HEAD] > 31 || !(TLS_MESSAGES & 1U << (data[TLS_HEAD] & 31))))
		return 0;
	end = TLS_HEAD + capture_record_length(data);
	if (end > length)
		return length == TLS_HEAD || length > CAPTURE_FIRST;
	if (end + 3 > length)
		return 1;
	scratch->cursor = (struct capture_cursor){};
	return capture_window(slot, end, 3) < 3 || capture_is_tls(data);
}

/*
 * Reports whether a transfer, the first bytes of which are in scratch, shows that a connection carries TLS
 * from now on.
 */
static __always_inline bool capture_begins_tls(struct capture_scratch *scratch, u32 slot, const struct capture_transfer *transfer, u32 taken)
{
	if (taken < TLS_HEAD || !capture_is_tls(scratch->data))
		return false;
	if (transfer->socket->protocol)
		return capture_is_hello(scratch->data, transfer->length);
	capture_keep(scratch, transfer);
	return capture_is_record(slot);
}

#endif
