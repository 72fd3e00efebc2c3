/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The life of connections: they begin, are open, and sockets listen for them.
 */
#ifndef EBPFRECEIVER_NETWORK_LIFE_H
#define EBPFRECEIVER_NETWORK_LIFE_H

#include "network_transfer.h"

/* Functions of their own, for their stacks: the handshake begins, in the thread that connects. */
static __noinline int connecting(struct sock *sk)
{
	struct task_struct *task = network_task();
	struct network_socket *socket;
	struct network_thread *thread;

	if (network_is_outside(task) || network_bind(sk, NETWORK_CLIENT) == NETWORK_NONE)
		return 0;
	thread = network_thread_of(task);
	if (thread)
		thread->messages = 1; /* a SYN was sent: what becomes of it its socket tells */
	socket = network_socket_of(sk);
	if (socket) {
		socket->connecting = 1;
		socket->time = bpf_ktime_get_ns();
	}
	return 0;
}

/* A handshake is over; who runs is anybody. */
static __noinline int connected(struct sock *sk, struct network_socket *socket)
{
	struct network_series *series = network_remembered(socket);
	struct network_process who = {};
	struct network_tuple tuple = {};
	struct network_record *record;
	u64 began = socket->time;
	u32 id;

	socket->connecting = 0;
	socket->time = network_rtt_due(sk);
	if (!series)
		return 0;
	network_owner(&who, series);

	/* Its own port is known only now. */
	network_read_tuple(&tuple, sk, NETWORK_TCP);
	id = network_connection(&who, &tuple, NETWORK_CLIENT);
	network_remember(socket, id, NETWORK_CLIENT, sk->__sk_common.skc_dport);
	series = bpf_map_lookup_elem(&network_places, &id);
	if (series)
		series->sample = tuple;
	record = network_record(id);
	if (record)
		network_observe(&record->operations[NETWORK_CONNECT], bpf_ktime_get_ns() - began);
	return 0;
}

static __noinline int listening(struct sock *sk)
{
	struct network_tuple tuple = {};
	struct network_process who;

	network_current(&who);
	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_listens(&tuple, &who); /* in scope or not: it says whose side the others are on */
	if (!network_is_outside(network_task()))
		network_bind(sk, NETWORK_SERVER);
	return 0;
}

static __noinline int listening_no_more(const struct sock *sk)
{
	struct network_tuple tuple = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_listens_no_more(&tuple);
	return 0;
}

/* Sockets that are remembered, as the last report has found them. */
u32 sockets_seen;

/* Counts a socket that is open, and looks at its connection where nobody uses it. */
static __always_inline void count_open(struct sock *sk, struct network_socket *socket)
{
	struct network_series *series = network_remembered(socket);
	struct network_record *record;
	u8 state;

	sockets_seen += 1;
	if (!series)
		return;
	if (series->key.transport == NETWORK_TCP) /* mostly, and less of the socket is read */
		state = BPF_CORE_READ(sk, __sk_common.skc_state);
	else
		state = network_state_of(sk);
	series->open[state & (NETWORK_STATES - 1)] += 1;
	record = network_record(socket->series);
	if (record)
		network_look_at_rtt(record, sk, socket, bpf_ktime_get_ns());
}

#endif
