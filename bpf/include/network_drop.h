/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Packets that the kernel drops.
 */
#ifndef EBPFRECEIVER_NETWORK_DROP_H
#define EBPFRECEIVER_NETWORK_DROP_H

#include "network_series.h"

/* Reports whether the kernel has a reason for freeing a packet. It has none before 5.17. */
static __always_inline bool has_reason(u32 reason)
{
	enum skb_drop_reason none = SKB_DROP_REASON_NOT_SPECIFIED, purged = SKB_DROP_REASON_QUEUE_PURGE;

	if (!bpf_core_enum_value_exists(none, SKB_DROP_REASON_NOT_SPECIFIED) || reason == bpf_core_enum_value(none, SKB_DROP_REASON_NOT_SPECIFIED))
		return false;
	return !bpf_core_enum_value_exists(purged, SKB_DROP_REASON_QUEUE_PURGE) || reason != bpf_core_enum_value(purged, SKB_DROP_REASON_QUEUE_PURGE);
}

/*
 * Reports whether a freed segment is no drop: one for a connection in TIME_WAIT, or the FIN in the queue of a
 * closed connection.
 */
static __always_inline bool drop_is_none(struct sk_buff *skb, struct sock *sk, u32 reason)
{
	if (has_reason(reason))
		return false;
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_TIME_WAIT)
		return true;
	return !skb->len && network_transport_of(sk) == NETWORK_TCP;
}

/*
 * Returns the series of a packet that was dropped for a socket that is not connected: the one without a peer
 * of the process that has used it. 0: unknown.
 */
static __noinline u32 drop_of_datagrams(const struct sock *sk, u32 role)
{
	struct network_tuple tuple = {}, end = {};
	struct network_process *known, who;
	struct network_key key = {};

	network_read_tuple(&tuple, sk, NETWORK_UDP);
	if (role == NETWORK_SERVER) {
		known = network_receiver(&tuple);
	} else {
		network_port_of(&end, tuple.netns, tuple.local_port);
		known = bpf_map_lookup_elem(&network_ends, &end);
	}
	if (!known)
		return 0;
	who = *known;
	if (!network_in_scope(who.pid, who.exec_id))
		return 0;
	network_name(&key, &who, &tuple, role);
	verifier_forget(&key, sizeof(key));
	return network_series_of(&key, &tuple);
}

static __always_inline u32 drop_series(struct sock *sk)
{
	struct network_socket *socket = network_socket_of(sk);

	if (!socket)
		return 0;
	if (network_remembered(socket))
		return socket->series;
	if (socket->generation != NETWORK_NONE || socket->port || !socket->role || network_transport_of(sk) != NETWORK_UDP)
		return 0;
	return drop_of_datagrams(sk, socket->role);
}

/* Counts a dropped packet. One without a socket counts for the host: series 0. */
static __always_inline int drop(struct sk_buff *skb, struct sock *sk, u32 reason)
{
	if (sk && drop_is_none(skb, sk, reason))
		return 0;
	if (reason > NETWORK_DROP_ELSEWHERE)
		reason = NETWORK_DROP_ELSEWHERE;
	network_count(sk ? drop_series(sk) : 0, NETWORK_DROPS, reason);
	return 0;
}

#endif
