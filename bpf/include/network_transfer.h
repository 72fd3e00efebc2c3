/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The hot path: a thread has sent or received on a socket.
 */
#ifndef EBPFRECEIVER_NETWORK_TRANSFER_H
#define EBPFRECEIVER_NETWORK_TRANSFER_H

#include "network_series.h"

/* include/linux/socket.h */
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000

#define EINTR 4
#define EAGAIN 11
#define EISCONN 106
#define EALREADY 114
#define EINPROGRESS 115
#define ERESTARTSYS 512 /* include/linux/errno.h; user space gets EINTR, or the call is restarted */

/* The interval at which the round-trip time of an active connection is sampled. */
#define RTT_EVERY_NS 100000000ULL

/* The peer of a datagram, on a socket that is not connected. */
struct network_peer {
	u32 address[4];
	u16 port; /* 0: unknown */
	u8 family;
	u8 unused;
};

/* A transfer. */
struct capture_transfer {
	struct sock *sk;
	struct network_socket *socket;
	const struct network_source *from; /* its base is 0 if the memory is unknown */
	u64 began, ended;
	u32 length;
	u32 kind;
	u32 position; /* of struct network_segment */
	u32 tls;      /* 1: plaintext that a TLS library has encrypted or decrypted */
};

/* sockaddr_in6, of which sockaddr_in is a prefix. */
struct network_sockaddr {
	u16 family;
	__be16 port;
	u32 address4; /* of sockaddr_in6: the flow label */
	u32 address6[4];
};

static __always_inline void network_parse_peer(struct network_peer *peer, const struct network_sockaddr *from)
{
	if (from->family == AF_INET) {
		peer->address[0] = from->address4;
		peer->family = 4;
	} else if (from->family == AF_INET6) {
		__builtin_memcpy(peer->address, from->address6, sizeof(peer->address));
		peer->family = network_unmap(peer->address);
	} else {
		return;
	}
	peer->port = bpf_ntohs(from->port);
}

/* Sets the remote end of a tuple to a peer. */
static __always_inline void network_to(struct network_tuple *tuple, const struct network_peer *peer)
{
	tuple->remote_port = peer->port;
	tuple->family = peer->family;
	__builtin_memcpy(tuple->remote, peer->address, sizeof(tuple->remote));
}

/* Reports whether a call had nothing to do, and is retried. */
static __always_inline bool network_is_retried(s64 result)
{
	return result == -EAGAIN || result == -EINTR || result <= -ERESTARTSYS;
}

/*
 * Reports whether a call transferred nothing of the peer's: it is retried, or it read the socket's error
 * queue.
 */
static __always_inline bool network_is_no_transfer(s64 result, int flags)
{
	return network_is_retried(result) || flags & MSG_ERRQUEUE;
}

/* Reports whether a socket is not connected, so that each datagram has a peer of its own. */
static __always_inline bool network_is_of_datagrams(const struct sock *sk)
{
	return !sk->__sk_common.skc_dport && sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM;
}

/* Sets the process and the series of a socket; returns the series. */
static __noinline u32 network_bind_to(struct sock *sk, const struct network_process *who, u32 role)
{
	struct network_tuple tuple = {};
	struct network_socket *socket = network_socket_of(sk);
	u16 port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	u32 id;

	network_read_tuple(&tuple, sk, network_transport_of(sk));
	if (!role && socket && socket->port == port)
		role = socket->role;
	if (!role)
		role = network_role_of(sk, &tuple);
	network_read_sequence(&tuple, sk, role);
	id = network_connection(who, &tuple, role);
	if (!socket)
		socket = network_create_socket(sk);
	if (!socket) {
		network_lost(NETWORK_LOST_SOCKETS);
		return id;
	}
	network_remember(socket, id, role, port);
	network_list(sk, id);
	return id;
}

/* Sets the series of a socket if the running thread's process is in scope. */
static __always_inline u32 network_bind(struct sock *sk, u32 role)
{
	struct network_process who = {};

	if (!network_transport_of(sk) || !network_discover(&who))
		return NETWORK_NONE;
	return network_bind_to(sk, &who, role);
}

/*
 * Returns the series of a socket that the running thread uses, if the socket's state is not accessible.
 * Sockets without a peer have none.
 */
static __noinline u32 network_find_peer(const struct sock *sk, const struct network_peer *peer, u32 role)
{
	struct network_process who = {};
	struct network_tuple tuple = {};
	u8 transport = network_transport_of(sk);

	if (!transport || !network_discover(&who))
		return NETWORK_NONE;
	network_read_tuple(&tuple, sk, transport);
	if (peer && peer->port)
		network_to(&tuple, peer);
	if (!tuple.remote_port && (transport == NETWORK_UDP || (transport == NETWORK_TCP && network_state_of(sk) != TCP_LISTEN)))
		return NETWORK_NONE;
	if (!role)
		role = network_role_of(sk, &tuple);
	network_read_sequence(&tuple, sk, role);
	return network_connection(&who, &tuple, role);
}

static __always_inline u32 network_find(const struct sock *sk, u32 role) { return network_find_peer(sk, 0, role); }

/*
 * Sets who to the process of an accepted connection that was not used yet: the one that accepted it, if recorded,
 * otherwise the one that listens. Returns false if it is unknown or out of scope.
 */
static __always_inline bool network_find_accepter(struct network_process *who, const struct network_tuple *tuple)
{
	struct network_listener *listener;
	struct network_process *accepter;
	struct network_tuple end = {};

	network_reverse(&end, tuple);
	accepter = bpf_map_lookup_elem(&network_ends, &end);
	if (!accepter) {
		listener = network_listener(tuple);
		accepter = listener ? &listener->who : 0;
	}
	if (!accepter)
		return false;
	*who = *accepter;
	return network_in_scope(who->pid, who->exec_id);
}

/* Sets the process of an accepted connection that was not used yet. Runs in any thread. */
static __noinline int network_claim(struct sock *sk)
{
	struct network_process who = {};
	struct network_tuple tuple = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_read_sequence(&tuple, sk, NETWORK_SERVER);
	if (network_find_accepter(&who, &tuple))
		network_bind_to(sk, &who, NETWORK_SERVER);
	return 0;
}

/* Returns the running CPU's record of the process that used the socket last. Runs in any thread. */
static __always_inline struct network_record *network_record_of(struct sock *sk)
{
	struct network_socket *socket = network_socket_of(sk);

	if (!socket)
		return 0;
	if (network_is_unclaimed(socket))
		network_claim(sk);
	if (!network_remembered(socket))
		return 0;
	return network_record(socket->series);
}

/* Reports whether a connect() has failed. The socket's state shows the outcome of those that continue. */
static __always_inline bool network_is_refusal(s64 result)
{
	return result < 0 && result != -EINPROGRESS && result != -EALREADY && result != -EISCONN && !network_is_retried(result);
}

/*
 * Returns the role of a UDP socket that is not connected: a server if bind() was called with a port, or if it
 * receives first. The upper half of the result distinguishes the socket from later ones at its address.
 */
static __noinline u64 network_datagram_socket(struct sock *sk, u32 operation)
{
	struct network_socket *socket = network_socket_of(sk);
	u32 role = NETWORK_CLIENT, local_port = BPF_CORE_READ(sk, __sk_common.skc_num);

	/* State by address may be that of a freed socket. */
	if (socket && socket->role && !socket->port && socket->series == local_port)
		return (u64)socket->stream << 32 | socket->role;
	if (operation == NETWORK_READ || BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_BINDPORT_LOCK)
		role = NETWORK_SERVER;
	if (!socket)
		socket = network_create_socket(sk);
	if (!socket) {
		network_lost(NETWORK_LOST_SOCKETS);
		return role;
	}
	socket->role = role;
	socket->port = 0;
	socket->series = local_port;
	socket->generation = NETWORK_NONE; /* no series; the member has the local port instead */
	socket->stream = bpf_get_prandom_u32();
	return (u64)socket->stream << 32 | role;
}

/* Returns the series of a datagram on a socket that is not connected. */
static __noinline u32 network_flow(const struct sock *sk, const struct network_peer *peer, u32 role)
{
	struct network_tuple tuple = {}, end = {};
	struct network_process who = {};
	struct network_key key = {};
	u32 *known;

	if (!network_discover(&who))
		return NETWORK_NONE;
	network_read_tuple(&tuple, sk, NETWORK_UDP);
	if (peer->port)
		network_to(&tuple, peer);
	else
		network_lost(NETWORK_LOST_PEERS);
	network_name(&key, &who, &tuple, role);
	/* The local address is unknown; on the loopback device the port is sufficient. */
	if (role == NETWORK_SERVER && peer->port && network_is_loopback(tuple.remote, tuple.family)) {
		network_port_of(&end, tuple.netns, peer->port);
		network_name_peer(&key, &end);
	}
	known = bpf_map_lookup_elem(&network_ids, &key);
	if (known)
		return *known;
	if (role == NETWORK_SERVER)
		network_receives(&tuple, &who);
	else
		network_note_port(&end, &tuple, &who);
	return network_series_of(&key, &tuple);
}

/* Reports whether a series belongs to the running process. */
static __always_inline bool network_is_owner(struct task_struct *task, const struct network_series *series)
{
	return (u32)TASK_READ(task, tgid) == series->key.pid && (u32)TASK_READ(task, self_exec_id) == series->key.exec_id;
}

/* Reports whether a socket has the peer of the series: a UDP socket may be connected again to the same port. */
static __always_inline bool network_is_peer(const struct sock *sk, const struct network_series *series)
{
	const u32 *address = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32;

	if (series->key.transport != NETWORK_UDP)
		return true;
	if (sk->__sk_common.skc_family == AF_INET)
		return sk->__sk_common.skc_daddr == series->key.address[0];
	if (series->key.family == 4) /* IPv4-mapped IPv6 */
		return address[3] == series->key.address[0];
	return address[0] == series->key.address[0] && address[1] == series->key.address[1] && address[2] == series->key.address[2] &&
	       address[3] == series->key.address[3];
}

/* Returns the series of a connected socket, for the running thread. */
static __always_inline u32 network_series_for(struct sock *sk, struct task_struct *task, struct network_socket **found)
{
	struct network_socket *socket = network_socket_of(sk);
	struct network_series *series;

	*found = socket;
	if (!socket || socket->port != sk->__sk_common.skc_dport)
		return network_bind(sk, NETWORK_NO_ROLE);
	series = network_remembered(socket);
	if (!series || !network_is_owner(task, series) || !network_is_peer(sk, series))
		return network_bind(sk, NETWORK_NO_ROLE);
	if (series->epoch != epoch) {
		if (!network_in_scope(series->key.pid, series->key.exec_id))
			return NETWORK_NONE;
		series->epoch = epoch;
	}
	return socket->series;
}

/*
 * Reports whether a time has come, in units of network_clock(). It has not if it is in the next interval; one
 * that is further in the future has passed, as the clock wraps around.
 */
static __always_inline bool network_rtt_is_due(u32 time, u32 now) { return time - now - 1 >= network_clock(RTT_EVERY_NS); }

/*
 * Samples the round-trip time of an active connection at intervals. State by address may be that of a freed
 * socket.
 */
static __always_inline void network_sample_rtt(struct network_record *record, struct sock *sk, struct network_socket *socket, u64 now)
{
	u32 at = network_clock(now), srtt;

	if (!socket || socket->connecting || !socket->has_rtt || (!socket_storage && !network_has_rtt(sk)))
		return;
	if (!network_rtt_is_due(socket->time, at))
		return;
	srtt = BPF_CORE_READ((struct tcp_sock *)sk, srtt_us);
	if (!srtt)
		return;
	socket->time = at + network_clock(RTT_EVERY_NS);
	network_observe(&record->rtt, (u64)srtt * 1000 / 8);
}

/* Adds bytes that the running thread has sent (NETWORK_WRITE) or received. */
static __always_inline void network_add(struct network_record *record, s64 bytes, u32 operation)
{
	if (bytes <= 0)
		return;
	if (operation == NETWORK_WRITE)
		__sync_fetch_and_add(&record->sent, bytes);
	else
		__sync_fetch_and_add(&record->received, bytes);
}

/* Records the duration of a call, or of one of its messages, whose beginning is in thread. */
static __always_inline void network_time(struct network_record *record, struct task_struct *task, const struct network_thread *thread,
					 u64 now, u32 operation)
{
	u64 waited, worked = network_worked(task, thread, now, &waited);

	if (operation == NETWORK_READ && waited)
		network_observe(&record->waits[NETWORK_WAIT_READ], waited);
	else
		worked += waited;
	network_observe(&record->operations[operation & 1], worked);
}

#endif
