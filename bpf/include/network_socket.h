/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Properties of a socket: transport, addresses, role.
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

/* include/net/sock.h: bind() was called with a port. */
#define SOCK_BINDPORT_LOCK 8

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_FIN_WAIT1 4
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10

#define LOOPBACK_NET 127 /* of 127.0.0.0/8 */

/* Returns enum network_transport; 0: the socket is of a kind that is not counted. */
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
 * Reports whether a socket is one of MPTCP. The process uses it, and each of its subflows is a TCP connection
 * with a socket of its own.
 */
static __always_inline bool network_has_subflows(const struct sock *sk) { return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_MPTCP; }

/* Returns the TCP socket, of MPTCP the first subflow; 0: there is none. */
static __always_inline const struct tcp_sock *network_tcp_of(const struct sock *sk)
{
	u16 protocol = BPF_CORE_READ(sk, sk_protocol);

	if (protocol == IPPROTO_TCP)
		return (const struct tcp_sock *)sk;
	if (protocol == IPPROTO_MPTCP && bpf_core_field_exists(struct mptcp_sock, first))
		return (const struct tcp_sock *)BPF_CORE_READ((const struct mptcp_sock *)sk, first);
	return 0;
}

/* Returns the TCP state (include/net/tcp_states.h); 0 for other sockets. */
static __always_inline u8 network_state_of(const struct sock *sk)
{
	return network_transport_of(sk) == NETWORK_TCP ? BPF_CORE_READ(sk, __sk_common.skc_state) : 0;
}

/* Converts an IPv4-mapped IPv6 address to IPv4; returns the family. */
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

/* Reads the addresses and ports of a socket or request socket. The tuple's netns is always set. */
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
 * Makes the verifier forget the values of an object on the stack, by copying it onto itself: paths that
 * differ only in them are merged. Binding a socket took the verifier ten times as long otherwise, a quarter
 * of a second at each start.
 */
static __always_inline void verifier_forget(void *segment, u32 size)
{
	bpf_probe_read_kernel(segment, size, segment);
}

static __always_inline void network_read_tuple(struct network_tuple *tuple, const struct sock *sk, u8 transport)
{
	tuple->transport = transport;
	if (transport == NETWORK_UNIX)
		tuple->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	else
		network_read_ends(tuple, &sk->__sk_common);
	/* A closed connection has no local port any more. */
	if (!tuple->local_port && transport == NETWORK_TCP)
		tuple->local_port = bpf_ntohs(BPF_CORE_READ((const struct inet_sock *)sk, inet_sport));
	verifier_forget(tuple, sizeof(*tuple));
}

/*
 * Reads the sequence number of the client's first byte, which both ends know. It distinguishes connections in
 * different network namespaces that have the same addresses and ports.
 */
static __always_inline void network_read_sequence(struct network_tuple *tuple, const struct sock *sk, u8 role)
{
	const struct tcp_sock *tcp = network_tcp_of(sk);
	u32 acknowledged;

	tuple->sequence = 0;
	if (!tcp || !tuple->remote_port)
		return;
	if (role == NETWORK_CLIENT) {
		acknowledged = BPF_CORE_READ(tcp, bytes_acked);
		if (acknowledged) /* otherwise the handshake is in progress: the number is not final */
			tuple->sequence = BPF_CORE_READ(tcp, snd_una) - acknowledged + 1;
	} else {
		tuple->sequence = BPF_CORE_READ(tcp, rcv_nxt) - (u32)BPF_CORE_READ(tcp, bytes_received);
	}
}

/* Reverses a tuple to the remote end's view: the key of network_ends. */
static __always_inline void network_reverse(struct network_tuple *to, const struct network_tuple *from)
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

/* Returns the process that listens on a socket's port, on its address or on all; 0: there is none. */
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

/* Returns the process that receives datagrams on a local address; 0: unknown. */
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

static __always_inline void network_stopped_listening(const struct network_tuple *tuple)
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
 * Returns the role of a socket's process. An accepted connection inherits the backlog of its listener. If
 * that is 0, the process is a server if its port has a listener. A UDP socket is a server's if bind() was
 * called with a port.
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
