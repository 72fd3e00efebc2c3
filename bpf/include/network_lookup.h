/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DNS lookups on sockets that are not connected, as those of resolvers that query several servers at once:
 * sent queries and received responses. What DNS servers do on such sockets is not captured.
 */
#ifndef EBPFRECEIVER_NETWORK_LOOKUP_H
#define EBPFRECEIVER_NETWORK_LOOKUP_H

#include "network_capture.h"

/* Returns the local port of a socket. */
static __always_inline u32 capture_port_of(u64 sock) { return BPF_CORE_READ((const struct sock *)sock, __sk_common.skc_num); }

/*
 * Packs what identifies a datagram: its series, and the stream number in the upper half of socket, which
 * distinguishes sockets.
 */
static __always_inline u64 capture_name(u64 socket, u32 series) { return (socket & ~0xffffffffULL) | series; }

/* Packs the slot of network_scratch and the direction of a datagram. */
static __always_inline u64 capture_way(u32 slot, u32 kind) { return (u64)slot << 32 | kind; }

/*
 * Captures a datagram of a socket that is not connected if it is a lookup. All parameters fit in registers,
 * because the stacks of the callers are full.
 */
static __noinline int capture_datagram(const struct network_thread *thread, u64 sock, u64 name, u64 way, u32 length)
{
	u32 slot = way >> 32, kind = way, series = name, want = length, taken;
	struct capture_scratch *scratch;
	struct network_series *place;
	struct network_segment *segment;

	if (want < sizeof(struct capture_dns) || !(capture_protocols & (1 << NETWORK_DNS)))
		return 0;
	scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	place = bpf_map_lookup_elem(&network_slots, &series);
	if (!scratch || !place || place->key.port == MDNS_PORT)
		return 0;
	if (capture_copy(scratch, slot, &thread->source, sizeof(struct capture_dns)) < sizeof(struct capture_dns))
		return 0;
	if (!capture_is_dns_of_client(scratch->data, want, kind) || capture_port_of(sock) == MDNS_PORT)
		return 0;
	if (want > capture_bytes)
		want = capture_bytes;
	taken = capture_copy(scratch, slot, &thread->source, want) & (CAPTURE_BUFFER - 1);
	segment = &scratch->segment;
	segment->sock = sock;
	segment->began = thread->since;
	segment->ended = bpf_ktime_get_ns();
	segment->stream = name >> 32;
	segment->series = series;
	segment->generation = place->generation;
	segment->length = length;
	segment->kind = kind;
	segment->protocol = NETWORK_DNS;
	segment->role = place->key.role;
	segment->lost = 0;
	segment->position = 0;
	capture_write(segment, sizeof(*segment) + taken);
	return 0;
}

#endif
