/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The life cycle of connections and listening sockets.
 */
#ifndef EBPFRECEIVER_NETWORK_LIFE_H
#define EBPFRECEIVER_NETWORK_LIFE_H

#include "network_call.h"

/*
 * Runs when a handshake begins, in the thread that connects. This and the following functions are not
 * inlined, for their stacks.
 */
static __noinline int connecting(struct sock *sk)
{
	struct task_struct *task = network_task();
	struct network_socket *socket;
	struct network_thread *thread;

	if (network_is_out_of_scope(task) || network_bind(sk, NETWORK_CLIENT) == NETWORK_NONE)
		return 0;
	socket = network_socket_of(sk);
	thread = network_thread_of(task);
	if (thread)
		thread->messages = socket ? NETWORK_HANDSHAKE_SOCKET : NETWORK_HANDSHAKE_CALL;
	if (socket) {
		if (socket->closed)
			__sync_fetch_and_add(&sockets_known, 1);
		socket->closed = 0;
		socket->connecting = 1;
		socket->time = network_clock(bpf_ktime_get_ns());
	}
	return 0;
}

/*
 * Returns the duration of a handshake. With TCP_FASTOPEN_CONNECT it begins with the first write, which may
 * come long after connect(). TCP has measured it then, unless the SYN was retransmitted.
 */
static __always_inline u64 network_handshake_time(const struct sock *sk, u32 began)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
	u64 measured = 0;

	if (BPF_CORE_READ_BITFIELD_PROBED(tcp, fastopen_connect))
		measured = (u64)BPF_CORE_READ(tcp, srtt_us) * 1000 / 8;
	return measured ? measured : (u64)(network_clock(bpf_ktime_get_ns()) - began) << NETWORK_CLOCK_SHIFT;
}

/* Runs when a handshake is complete, in any thread. */
static __noinline int connected(struct sock *sk, struct network_socket *socket)
{
	struct network_series *series = network_remembered(socket);
	struct network_process who = {};
	struct network_tuple tuple = {};
	struct network_record *record;
	u64 took = network_handshake_time(sk, socket->time);
	u32 id;

	socket->connecting = 0;
	socket->time = network_clock(bpf_ktime_get_ns());
	if (!series)
		return 0;
	network_owner(&who, series);

	/* The local port is known only now. */
	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_read_sequence(&tuple, sk, NETWORK_CLIENT);
	id = network_connection(&who, &tuple, NETWORK_CLIENT);
	network_remember(socket, id, NETWORK_CLIENT, sk->__sk_common.skc_dport);
	network_list(sk, id);
	record = network_record(id);
	if (record)
		network_observe(&record->operations[NETWORK_CONNECT], took);
	return 0;
}

/*
 * Runs when a handshake has failed. If the socket has no error, the handshake was aborted or has not begun.
 * Then the thread is still in connect(), whose return shows the reason.
 */
static __noinline int not_connected(const struct sock *sk, struct network_socket *socket)
{
	u32 error = BPF_CORE_READ(sk, sk_err);
	struct network_thread *thread = error ? 0 : network_thread_of(network_task());

	socket->connecting = 0;
	socket->time = network_clock(bpf_ktime_get_ns());
	if (thread && thread->since && thread->sock && thread->messages == NETWORK_HANDSHAKE_SOCKET)
		thread->messages = NETWORK_HANDSHAKE_NONE;
	else
		network_count(socket->series, NETWORK_FAILURES, error);
	return 0;
}

/*
 * Runs when a connection arrives at a listener, in any thread. The process that will accept it is unknown.
 * Only now the connection is known to be accepted rather than made: the listener may be closed later.
 */
static __noinline int arrived(struct sock *sk)
{
	struct network_tuple tuple = {};
	struct network_listener *listener;
	struct network_socket *socket;

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	listener = network_listener(&tuple);
	if (listener && !network_in_scope(listener->who.pid, listener->who.exec_id))
		return 0;
	socket = network_create_socket(sk);
	if (!socket) {
		network_lost(NETWORK_LOST_SOCKETS);
		return 0;
	}
	socket->generation = NETWORK_NONE;
	socket->role = NETWORK_SERVER;
	socket->port = sk->__sk_common.skc_dport;
	network_list_unclaimed(sk);
	return 0;
}

/*
 * Runs when a connection ends in close() of the running thread: the call is then counted in the series of the
 * connection's transfers, as the call itself cannot read the socket's state. The peer may have been resolved
 * since, or another process have used the socket. Before Linux 6.6 the connection ends after the return of
 * the call, which has been counted then.
 */
static __noinline int closing(const struct sock *sk, const struct network_socket *socket)
{
	struct task_struct *task = network_task();
	struct network_thread *thread = network_calling(task);
	struct network_series *series;

	if (!thread || thread->call != CALL_CLOSE || thread->sock != (u64)sk)
		return 0;
	series = network_remembered(socket);
	if (series && network_is_owner(task, series))
		thread->series = socket->series;
	return 0;
}

/*
 * Reports whether a process may still read from an MPTCP socket that is closed now by a kernel worker. The
 * socket is closed again when the process releases or reconnects it.
 */
static __always_inline bool network_may_be_read(const struct sock *sk, int before)
{
	struct task_struct *task = network_task();

	return before != TCP_CLOSE && BPF_CORE_READ(sk, sk_socket) && TASK_READ(task, flags) & PF_KTHREAD;
}

/* Runs when a connection is closed: it no longer counts against max_sockets. */
static __always_inline void closed(struct network_socket *socket)
{
	if (!socket->closed)
		__sync_fetch_and_add(&sockets_known, -1);
	socket->closed = 1;
}

static __noinline int listening(struct sock *sk)
{
	struct network_tuple tuple = {};
	struct network_process who;

	network_current(&who);
	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_listens(&tuple, &who); /* recorded in any scope: it shows the role of other processes */
	if (!network_is_out_of_scope(network_task()))
		network_bind(sk, NETWORK_SERVER);
	if (!network_socket_of(sk))
		network_mark(sk); /* otherwise the iteration over files counts it again */
	return 0;
}

static __noinline int stopped_listening(const struct sock *sk)
{
	struct network_tuple tuple = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_stopped_listening(&tuple);
	return 0;
}

/* Number of sockets with state that are not listed, and of those that are, as of the last report. */
u32 sockets_seen, listed_seen;

/*
 * Sets the process of a listed connection that was accepted and not used yet. It may have no file, and only its
 * address is known, which socket storage does not accept: the state of the socket stays without a series.
 */
static __noinline int claim_listed(const struct sock *sk)
{
	struct network_process who = {};
	struct network_tuple tuple = {};

	if (!sk || !BPF_CORE_READ(sk, sk_socket))
		return 0; /* it waits to be accepted */
	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_read_sequence(&tuple, sk, NETWORK_SERVER);
	if (network_find_accepter(&who, &tuple))
		network_list(sk, network_connection(&who, &tuple, NETWORK_SERVER));
	return 0;
}

/* Samples the round-trip time of the first subflow of an MPTCP connection. */
static __noinline int sample_subflow(const struct sock *sk)
{
	struct network_listed_socket *listed = sk ? network_listed(sk) : 0;
	u32 now = network_clock(bpf_ktime_get_ns()), srtt;
	struct network_record *record;

	if (listed && listed->generation == NETWORK_NONE) {
		claim_listed(sk);
		listed = network_listed(sk);
	}
	if (!listed || listed->generation == NETWORK_NONE || !network_rtt_is_due(listed->time, now))
		return 0;
	srtt = BPF_CORE_READ((const struct tcp_sock *)sk, srtt_us);
	record = srtt ? network_record(listed->series) : 0;
	if (!record)
		return 0;
	listed->time = now + network_clock(RTT_EVERY_NS);
	network_observe(&record->rtt, (u64)srtt * 1000 / 8);
	return 0;
}

/*
 * Counts a listed socket. Its state is read from the socket: the kernel does not run a program for a change of
 * state that interrupts the same program.
 */
static long count_listed(struct bpf_map *map, const u64 *address, struct network_listed_socket *listed, void *unused)
{
	const struct sock *sk = (const struct sock *)*address;
	struct network_series *series;
	u32 state = BPF_CORE_READ(sk, __sk_common.skc_state), id;

	listed_seen += 1;
	listed->state = state;
	if (listed->generation == NETWORK_NONE) {
		claim_listed(sk);
		listed = network_listed(sk);
		if (!listed)
			return 0;
	}
	id = listed->series;
	series = bpf_map_lookup_elem(&network_slots, &id);
	if (series && series->generation == listed->generation)
		series->open[state & (NETWORK_STATES - 1)] += 1;
	return 0;
}

/* Counts an open socket unless it is listed. Samples the round-trip time of an idle connection. */
static __always_inline void count_open(struct sock *sk, struct network_socket *socket)
{
	struct network_listed_socket *listed;
	struct network_series *series;
	struct network_record *record;
	u8 state;

	if (network_is_unclaimed(socket) && BPF_CORE_READ(sk, sk_socket))
		network_claim(sk);
	listed = network_listed(sk);
	if (!listed)
		sockets_seen += 1;
	series = network_remembered(socket);
	if (!series)
		return;
	if (series->key.transport == NETWORK_TCP && !socket->has_rtt)
		return; /* an MPTCP socket: its subflows are counted instead */
	if (series->key.transport == NETWORK_TCP) /* the common case, which reads less of the socket */
		state = BPF_CORE_READ(sk, __sk_common.skc_state);
	else
		state = network_state_of(sk);
	if (listed)
		listed->state = state; /* it may have changed while the socket was listed */
	else
		series->open[state & (NETWORK_STATES - 1)] += 1;
	record = network_record(socket->series);
	if (record)
		network_sample_rtt(record, sk, socket, bpf_ktime_get_ns());
}

#endif
