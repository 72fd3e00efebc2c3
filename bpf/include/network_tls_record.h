/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * By what a connection is known to carry TLS: a transfer begins with a record (RFC 8446,
 * 5.1). Packets of MySQL and messages of MongoDB of 788 to 791 bytes begin as one does,
 * since their lengths come first. So the record must be as those of its type are, and
 * where the transfer goes on behind it another one must follow.
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
/* An alert that is not encrypted, and the least that anything encrypted is: a byte and a code of 16. */
#define TLS_ALERT_BYTES 2
#define TLS_SEALED 17
/* Of a handshake's message type and length. */
#define TLS_MESSAGE 4
#define TLS_CLIENT_HELLO 1
/* Messages of handshakes, a bit for each: RFC 8446, 4, and what older versions and extensions have. */
#define TLS_MESSAGES 0x03f1f937

/* A record may begin. */
static __always_inline bool capture_is_tls(const u8 *data) { return data[0] >= TLS_CHANGE && data[0] <= TLS_DATA && data[1] == 3 && data[2] <= 4; }

static __always_inline u32 capture_record_length(const u8 *data) { return (u32)data[3] << 8 | data[4]; }

/* A record of this type may be so long. */
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

/* A transfer is a ClientHello and nothing else (RFC 8446, 4): what is asked for by CONNECT begins with it. */
static __always_inline bool capture_is_hello(const u8 *data, u32 length)
{
	u32 hello = (u32)data[6] << 16 | (u32)data[7] << 8 | data[8];

	return capture_is_tls(data) && data[0] == TLS_HANDSHAKE && data[5] == TLS_CLIENT_HELLO && hello + TLS_HEAD + TLS_MESSAGE == length;
}

/*
 * Whether the transfer that is kept in the slot begins with a record; the bytes by which
 * it seems so are there. Programs read the head of a record by itself, or what is there;
 * the heads of others are longer.
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

/* A transfer, the first bytes of which are in scratch, shows that a connection carries TLS, or that it does from now on. */
static __always_inline bool capture_begins_tls(struct capture_scratch *scratch, u32 slot, const struct capture_transfer *transfer, u32 taken)
{
	if (taken < TLS_HEAD || !capture_is_tls(scratch->data))
		return false;
	if (transfer->socket->protocol)
		return capture_is_hello(scratch->data, transfer->length);
	capture_put(scratch, transfer);
	return capture_is_record(slot);
}

#endif
