/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lookups on sockets that are not connected, as resolvers have them that ask several
 * servers at once: queries that are sent and responses that are received. What a server
 * of names does on such a socket is not told.
 */
#ifndef EBPFRECEIVER_NETWORK_LOOKUP_H
#define EBPFRECEIVER_NETWORK_LOOKUP_H

#include "network_capture.h"

/* A response without a question, as a server gives it that did not understand the query: what it answers is known by its number. */
static __always_inline bool capture_answers_alone(const struct capture_dns *header)
{
	return !header->questions && !(header->flags & DNS_OPERATION) && !(header->code & DNS_RESERVED) && capture_may_have_records(header);
}

static __always_inline bool capture_is_own_lookup(const u8 *data, u32 length, u32 kind)
{
	const struct capture_dns *header = (const struct capture_dns *)data;
	bool response = header->flags & DNS_RESPONSE;

	if (response != (kind == NETWORK_PIECE_READ))
		return false;
	return (response && capture_answers_alone(header)) || (length >= DNS_SHORTEST && capture_is_dns(data));
}

/* The port of a socket. */
static __always_inline u32 capture_port_of(u64 sock) { return BPF_CORE_READ((const struct sock *)sock, __sk_common.skc_num); }

/* What names a datagram: of its socket, which responses are not matched by, no more than tells it from others; and its series. */
static __always_inline u64 capture_name(u64 socket, u32 series) { return (socket & ~0xffffffffULL) | series; }

/* Which way a datagram goes, and the slot of network_scratch. */
static __always_inline u64 capture_way(u32 slot, u32 kind) { return (u64)slot << 32 | kind; }

/*
 * The thread's call has moved a datagram of a socket that is not connected: tells of it if
 * it is a lookup. All of it in registers: the stacks of those who call are full.
 */
static __noinline int capture_datagram(const struct network_thread *thread, u64 sock, u64 name, u64 way, u32 length)
{
	u32 slot = way >> 32, kind = way, series = name, want = length, taken;
	struct capture_scratch *scratch;
	struct network_series *place;
	struct network_piece *piece;

	if (want < sizeof(struct capture_dns) || !(capture_protocols & (1 << NETWORK_DNS)))
		return 0;
	scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	place = bpf_map_lookup_elem(&network_places, &series);
	if (!scratch || !place || place->key.port == MDNS_PORT)
		return 0;
	if (capture_take(scratch, slot, &thread->source, sizeof(struct capture_dns)) < sizeof(struct capture_dns))
		return 0;
	if (!capture_is_own_lookup(scratch->data, want, kind) || capture_port_of(sock) == MDNS_PORT)
		return 0;
	if (want > capture_bytes)
		want = capture_bytes;
	taken = capture_take(scratch, slot, &thread->source, want) & (CAPTURE_ROOM - 1);
	piece = &scratch->piece;
	piece->sock = sock;
	piece->began = thread->since;
	piece->ended = bpf_ktime_get_ns();
	piece->stream = name >> 32;
	piece->series = series;
	piece->generation = place->generation;
	piece->length = length;
	piece->kind = kind;
	piece->protocol = NETWORK_DNS;
	piece->role = place->key.role;
	piece->lost = 0;
	piece->position = 0;
	capture_write(piece, sizeof(*piece) + taken);
	return 0;
}

#endif
