/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a socket says of itself: kind, ends, role.
 */
#ifndef EBPFRECEIVER_NETWORK_SOCKET_H
#define EBPFRECEIVER_NETWORK_SOCKET_H

#include "network.h"

#include <bpf/bpf_endian.h>

/* include/linux/socket.h, include/uapi/linux/in.h, include/linux/net.h */
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define SOCK_SEQPACKET 5
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_MPTCP 262

/* include/net/sock.h: bind() was told a port. */
#define SOCK_BINDPORT_LOCK 8

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_FIN_WAIT1 4
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10

#define LOOPBACK_NET 127 /* of 127.0.0.0/8 */

/* enum network_transport, or 0 where the socket is of a kind that is not counted. */
static __always_inline u8 network_transport_of(const struct sock *sk)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	if (family == AF_UNIX)
		return NETWORK_UNIX;
	if ((family != AF_INET && family != AF_INET6) || BPF_CORE_READ(sk, sk_type) == SOCK_RAW)
		return 0;
	switch (BPF_CORE_READ(sk, sk_protocol)) {
	case IPPROTO_TCP:
	case IPPROTO_MPTCP:
		return NETWORK_TCP;
	case IPPROTO_UDP:
		return NETWORK_UDP;
	}
	return 0;
}

/*
 * A socket of MPTCP, with which the process deals, carries nothing itself: each of its
 * subflows is a connection of TCP with a socket of its own.
 */
static __always_inline bool network_has_subflows(const struct sock *sk) { return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_MPTCP; }

/* What TCP keeps of a socket, of MPTCP of its first subflow; 0 where it keeps nothing. */
static __always_inline const struct tcp_sock *network_tcp_of(const struct sock *sk)
{
	u16 protocol = BPF_CORE_READ(sk, sk_protocol);

	if (protocol == IPPROTO_TCP)
		return (const struct tcp_sock *)sk;
	if (protocol == IPPROTO_MPTCP && bpf_core_field_exists(struct mptcp_sock, first))
		return (const struct tcp_sock *)BPF_CORE_READ((const struct mptcp_sock *)sk, first);
	return 0;
}

/* Of enum in include/net/tcp_states.h, for connections of TCP; else 0. */
static __always_inline u8 network_state_of(const struct sock *sk)
{
	return network_transport_of(sk) == NETWORK_TCP ? BPF_CORE_READ(sk, __sk_common.skc_state) : 0;
}

/* An IPv4 address that is written as one of IPv6 becomes one of IPv4. */
static __always_inline u8 network_unmap(u32 address[4])
{
	if (address[0] || address[1] || address[2] != bpf_htonl(0xffff))
		return 6;
	address[0] = address[3];
	address[2] = 0;
	address[3] = 0;
	return 4;
}

static __always_inline bool network_is_loopback(const u32 address[4], u8 family)
{
	if (family == 4)
		return (bpf_ntohl(address[0]) >> 24) == LOOPBACK_NET;
	return !address[0] && !address[1] && !address[2] && address[3] == bpf_htonl(1);
}

/* Reads both ends as they are now, of a socket or of what becomes one. The tuple's netns is always set. */
static __always_inline void network_read_ends(struct network_tuple *tuple, const struct sock_common *common)
{
	u8 local = 4, remote = 4;

	tuple->netns = BPF_CORE_READ(common, skc_net.net, ns.inum);
	tuple->local_port = BPF_CORE_READ(common, skc_num);
	tuple->remote_port = bpf_ntohs(BPF_CORE_READ(common, skc_dport));
	if (BPF_CORE_READ(common, skc_family) == AF_INET) {
		tuple->local[0] = BPF_CORE_READ(common, skc_rcv_saddr);
		tuple->remote[0] = BPF_CORE_READ(common, skc_daddr);
	} else {
		BPF_CORE_READ_INTO(&tuple->local, common, skc_v6_rcv_saddr.in6_u.u6_addr32);
		BPF_CORE_READ_INTO(&tuple->remote, common, skc_v6_daddr.in6_u.u6_addr32);
		local = network_unmap(tuple->local);
		remote = network_unmap(tuple->remote);
	}
	tuple->family = tuple->remote_port ? remote : local;
}

/*
 * Has the verifier forget what it knows of a piece of the stack, which is copied onto
 * itself: ways that differ in nothing else are one from here on. Binding a socket took
 * it ten times as long otherwise, a quarter of a second at each start.
 */
static __always_inline void network_forget(void *piece, u32 size)
{
	bpf_probe_read_kernel(piece, size, piece);
}

static __always_inline void network_read_tuple(struct network_tuple *tuple, const struct sock *sk, u8 transport)
{
	tuple->transport = transport;
	if (transport == NETWORK_UNIX)
		tuple->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	else
		network_read_ends(tuple, &sk->__sk_common);
	/* A connection that is over has given its port back. */
	if (!tuple->local_port && transport == NETWORK_TCP)
		tuple->local_port = bpf_ntohs(BPF_CORE_READ((const struct inet_sock *)sk, inet_sport));
	network_forget(tuple, sizeof(*tuple));
}

/*
 * Both ends of a connection know the sequence number with which the client's bytes
 * begin: of another one, between other network namespaces, it is another although
 * addresses and ports be the same.
 */
static __always_inline void network_tell_apart(struct network_tuple *tuple, const struct sock *sk, u8 role)
{
	const struct tcp_sock *tcp = network_tcp_of(sk);
	u32 acknowledged;

	tuple->sequence = 0;
	if (!tcp || !tuple->remote_port)
		return;
	if (role == NETWORK_CLIENT) {
		acknowledged = BPF_CORE_READ(tcp, bytes_acked);
		if (acknowledged) /* else the handshake goes on: another number will be chosen, or was not yet */
			tuple->sequence = BPF_CORE_READ(tcp, snd_una) - acknowledged + 1;
	} else {
		tuple->sequence = BPF_CORE_READ(tcp, rcv_nxt) - (u32)BPF_CORE_READ(tcp, bytes_received);
	}
}

/* The tuple as the other end has it: the key of network_ends. */
static __always_inline void network_turn(struct network_tuple *to, const struct network_tuple *from)
{
	__builtin_memcpy(to->local, from->remote, sizeof(to->local));
	__builtin_memcpy(to->remote, from->local, sizeof(to->remote));
	to->netns = network_is_loopback(from->remote, from->family) ? from->netns : 0;
	to->local_port = from->remote_port;
	to->remote_port = from->local_port;
	to->family = from->family;
	to->transport = from->transport;
	to->sequence = from->sequence;
}

/* Who listens on the socket's port, if somebody does: on its address, or on all. */
static __always_inline struct network_listener *network_listener(const struct network_tuple *tuple)
{
	struct network_tuple key = {
		.netns = tuple->netns, .local_port = tuple->local_port, .transport = tuple->transport,
	};
	struct network_listener *known;

	known = bpf_map_lookup_elem(&network_listeners, &key);
	if (known)
		return known;
	__builtin_memcpy(key.local, tuple->local, sizeof(key.local));
	return bpf_map_lookup_elem(&network_listeners, &key);
}

static __always_inline void network_receives(const struct network_tuple *tuple, const struct network_process *who)
{
	struct network_tuple key = {
		.netns = tuple->netns, .local_port = tuple->local_port, .transport = tuple->transport,
	};

	__builtin_memcpy(key.local, tuple->local, sizeof(key.local));
	bpf_map_update_elem(&network_receivers, &key, who, BPF_ANY);
}

/* Who receives datagrams on the socket's end, if that is known. */
static __always_inline struct network_process *network_receiver(const struct network_tuple *tuple)
{
	struct network_tuple key = {
		.netns = tuple->netns, .local_port = tuple->local_port, .transport = tuple->transport,
	};

	__builtin_memcpy(key.local, tuple->local, sizeof(key.local));
	return bpf_map_lookup_elem(&network_receivers, &key);
}

static __always_inline void network_listens(const struct network_tuple *tuple, const struct network_process *who)
{
	struct network_tuple key = {
		.netns = tuple->netns, .local_port = tuple->local_port, .transport = tuple->transport,
	};

	struct network_listener fresh = { .who = *who, .sockets = 1 }, *known;

	__builtin_memcpy(key.local, tuple->local, sizeof(key.local));
	if (!bpf_map_update_elem(&network_listeners, &key, &fresh, BPF_NOEXIST))
		return;
	known = bpf_map_lookup_elem(&network_listeners, &key);
	if (!known) {
		network_lost(NETWORK_LOST_LISTENERS);
		return;
	}
	known->who = *who;
	__sync_fetch_and_add(&known->sockets, 1);
}

static __always_inline void network_listens_no_more(const struct network_tuple *tuple)
{
	struct network_tuple key = {
		.netns = tuple->netns, .local_port = tuple->local_port, .transport = tuple->transport,
	};

	struct network_listener *known;

	__builtin_memcpy(key.local, tuple->local, sizeof(key.local));
	known = bpf_map_lookup_elem(&network_listeners, &key);
	if (!known)
		return;
	if (known->sockets > 1)
		__sync_fetch_and_add(&known->sockets, -1);
	else
		bpf_map_delete_elem(&network_listeners, &key);
}

/*
 * Which side the process is on. A connection that was accepted has the backlog of its
 * listener, of which it began as a copy; where that was 0 it is one if its port is
 * listened on. A UDP socket is a server's if bind() was told its port.
 */
static __always_inline u8 network_role_of(const struct sock *sk, const struct network_tuple *tuple)
{
	switch (tuple->transport) {
	case NETWORK_TCP:
		if (BPF_CORE_READ(sk, sk_max_ack_backlog))
			return NETWORK_SERVER;
		return network_listener(tuple) ? NETWORK_SERVER : NETWORK_CLIENT;
	case NETWORK_UDP:
		return BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_BINDPORT_LOCK ? NETWORK_SERVER : NETWORK_CLIENT;
	}
	return NETWORK_NO_ROLE;
}

#endif
