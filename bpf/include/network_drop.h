/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Packets that the kernel frees without use.
 */
#ifndef EBPFRECEIVER_NETWORK_DROP_H
#define EBPFRECEIVER_NETWORK_DROP_H

#include "network_series.h"

/* Whether the kernel says why it frees a packet: before 5.17 it never does. */
static __always_inline bool has_cause(u32 reason)
{
	enum skb_drop_reason none = SKB_DROP_REASON_NOT_SPECIFIED, purged = SKB_DROP_REASON_QUEUE_PURGE;

	if (!bpf_core_enum_value_exists(none, SKB_DROP_REASON_NOT_SPECIFIED) || reason == bpf_core_enum_value(none, SKB_DROP_REASON_NOT_SPECIFIED))
		return false;
	return !bpf_core_enum_value_exists(purged, SKB_DROP_REASON_QUEUE_PURGE) || reason != bpf_core_enum_value(purged, SKB_DROP_REASON_QUEUE_PURGE);
}

/*
 * A segment that the kernel is done with, which is no drop: what comes to a connection
 * in TIME_WAIT, and the FIN that is left in the queue of a closed one.
 */
static __always_inline bool drop_is_none(struct sk_buff *skb, struct sock *sk, u32 reason)
{
	if (has_cause(reason))
		return false;
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_TIME_WAIT)
		return true;
	return !skb->len && network_transport_of(sk) == NETWORK_TCP;
}

/* What has no socket is the host's: series 0. */
static __always_inline int drop(struct sk_buff *skb, struct sock *sk, u32 reason)
{
	struct network_socket *socket;

	if (sk && drop_is_none(skb, sk, reason))
		return 0;
	socket = sk ? network_socket_of(sk) : 0;
	if (reason > NETWORK_DROP_ELSEWHERE)
		reason = NETWORK_DROP_ELSEWHERE;
	network_count(socket && network_remembered(socket) ? socket->series : 0, NETWORK_DROPS, reason);
	return 0;
}

#endif
