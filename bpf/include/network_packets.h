/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What TCP did for a call, if calls are exported: the number of segments with data sent or received, and the
 * round-trip time.
 */
#ifndef EBPFRECEIVER_NETWORK_PACKETS_H
#define EBPFRECEIVER_NETWORK_PACKETS_H

#include "network_window.h"

/* Returns the number of bytes of the direction up to a sequence number. */
static __always_inline u32 capture_bytes_until(const struct tcp_sock *tcp, u32 kind, u32 position)
{
	if (kind == NETWORK_SEGMENT_READ)
		return position - BPF_CORE_READ(tcp, rcv_nxt) + (u32)BPF_CORE_READ(tcp, bytes_received);
	return position - BPF_CORE_READ(tcp, snd_una) + (u32)BPF_CORE_READ(tcp, bytes_acked);
}

/*
 * Records what TCP did since the previous call in this direction. It is unknown for the first call of a
 * socket that was used before.
 */
static __noinline int capture_packets(struct network_segment *segment, const struct capture_transfer *transfer)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)transfer->sk;
	struct network_frames_key key = { .sock = (u64)transfer->sk, .stream = transfer->socket->stream, .kind = transfer->kind };
	struct network_frames *known, fresh = {};
	u32 now, before;

	segment->packets = 0;
	segment->rtt = 0;
	if (!transfer->position || transfer->tls)
		return 0;
	known = bpf_map_lookup_elem(&network_frames, &key);
	if (!known) {
		bpf_map_update_elem(&network_frames, &key, &fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&network_frames, &key);
	}
	if (!known)
		return 0;
	before = known->packets;
	now = transfer->kind == NETWORK_SEGMENT_READ ? BPF_CORE_READ(tcp, data_segs_in) : BPF_CORE_READ(tcp, data_segs_out);
	known->packets = now;
	segment->rtt = BPF_CORE_READ(tcp, srtt_us) / 8;
	/* The SYN of a client is included in the bytes that were acknowledged. */
	if (before || capture_bytes_until(tcp, transfer->kind, transfer->position - transfer->length) <= 1)
		segment->packets = now - before + 1;
	return 0;
}

#endif
