/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What TCP did for a call, where calls are told one by one: how many segments with data
 * it has sent or received, and the round-trip time by then.
 */
#ifndef EBPFRECEIVER_NETWORK_PACKETS_H
#define EBPFRECEIVER_NETWORK_PACKETS_H

#include "network_window.h"

/* How many bytes the direction had transferred until the sequence number. */
static __always_inline u32 capture_bytes_until(const struct tcp_sock *tcp, u32 kind, u32 position)
{
	if (kind == NETWORK_PIECE_READ)
		return position - BPF_CORE_READ(tcp, rcv_nxt) + (u32)BPF_CORE_READ(tcp, bytes_received);
	return position - BPF_CORE_READ(tcp, snd_una) + (u32)BPF_CORE_READ(tcp, bytes_acked);
}

/* Notes what TCP did since the last call of this direction; of the first one of a socket that had been used before it is not known. */
static __noinline int capture_packets(struct network_piece *piece, const struct capture_transfer *transfer)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)transfer->sk;
	struct network_frames_key key = { .sock = (u64)transfer->sk, .stream = transfer->socket->stream, .kind = transfer->kind };
	struct network_frames *known, fresh = {};
	u32 now, before;

	piece->packets = 0;
	piece->rtt = 0;
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
	now = transfer->kind == NETWORK_PIECE_READ ? BPF_CORE_READ(tcp, data_segs_in) : BPF_CORE_READ(tcp, data_segs_out);
	known->packets = now;
	piece->rtt = BPF_CORE_READ(tcp, srtt_us) / 8;
	/* A client's SYN is among the bytes that were acknowledged. */
	if (before || capture_bytes_until(tcp, transfer->kind, transfer->position - transfer->length) <= 1)
		piece->packets = now - before + 1;
	return 0;
}

#endif
