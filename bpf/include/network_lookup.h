/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lookups on sockets that are not connected, as resolvers have them that ask several
 * servers at once: queries that are sent and responses that are received. What a server
 * of names does on such a socket is not told.
 */
#ifndef EBPFRECEIVER_NETWORK_LOOKUP_H
#define EBPFRECEIVER_NETWORK_LOOKUP_H

#include "network_capture.h"

/* A datagram. Responses are told apart by their id, whomever they come from: of the socket no more than a name is needed. */
struct capture_datagram {
	const struct network_source *from;
	u64 sock; /* address in the kernel */
	u64 began, ended;
	u32 stream; /* struct network_socket.stream */
	u32 series;
	u32 length;
	u32 kind; /* enum network_piece_kind */
	u32 slot; /* of network_scratch */
	u32 unused;
};

static __always_inline bool capture_is_own_lookup(const u8 *data, u32 kind)
{
	const struct capture_dns *header = (const struct capture_dns *)data;
	bool response = header->flags & DNS_RESPONSE;

	return capture_is_dns(data) && response == (kind == NETWORK_PIECE_READ);
}

static __noinline int capture_datagram(const struct capture_datagram *datagram)
{
	u32 slot = datagram->slot, series = datagram->series, want = datagram->length, taken;
	struct capture_scratch *scratch;
	struct network_series *place;
	struct network_piece *piece;

	if (want < DNS_SHORTEST || !(capture_protocols & (1 << NETWORK_DNS)))
		return 0;
	scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	place = bpf_map_lookup_elem(&network_places, &series);
	if (!scratch || !place)
		return 0;
	if (capture_take(scratch, datagram->from, CAPTURE_FIRST) < CAPTURE_FIRST || !capture_is_own_lookup(scratch->data, datagram->kind))
		return 0;
	if (want > capture_bytes)
		want = capture_bytes;
	taken = capture_take(scratch, datagram->from, want) & (CAPTURE_MOST - 1);
	piece = &scratch->piece;
	piece->sock = datagram->sock;
	piece->began = datagram->began;
	piece->ended = datagram->ended;
	piece->stream = datagram->stream;
	piece->series = series;
	piece->generation = place->generation;
	piece->length = datagram->length;
	piece->kind = datagram->kind;
	piece->protocol = NETWORK_DNS;
	piece->role = place->key.role;
	piece->lost = 0;
	piece->position = 0;
	capture_write(piece, sizeof(*piece) + taken);
	return 0;
}

#endif
