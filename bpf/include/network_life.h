/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The life of connections: they begin, are open, and sockets listen for them.
 */
#ifndef EBPFRECEIVER_NETWORK_LIFE_H
#define EBPFRECEIVER_NETWORK_LIFE_H

#include "network_call.h"

/* Functions of their own, for their stacks: the handshake begins, in the thread that connects. */
static __noinline int connecting(struct sock *sk)
{
	struct task_struct *task = network_task();
	struct network_socket *socket;
	struct network_thread *thread;

	if (network_is_outside(task) || network_bind(sk, NETWORK_CLIENT) == NETWORK_NONE)
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
 * How long a handshake has taken. With TCP_FASTOPEN_CONNECT it begins with the first
 * write, which may come long after connect(); TCP itself has measured it then, unless
 * the SYN was sent again.
 */
static __always_inline u64 network_handshake_time(const struct sock *sk, u32 began)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
	u64 measured = 0;

	if (BPF_CORE_READ_BITFIELD_PROBED(tcp, fastopen_connect))
		measured = (u64)BPF_CORE_READ(tcp, srtt_us) * 1000 / 8;
	return measured ? measured : (u64)(network_clock(bpf_ktime_get_ns()) - began) << NETWORK_CLOCK_SHIFT;
}

/* A handshake is over; who runs is anybody. */
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

	/* Its own port is known only now. */
	network_read_tuple(&tuple, sk, NETWORK_TCP);
	network_tell_apart(&tuple, sk, NETWORK_CLIENT);
	id = network_connection(&who, &tuple, NETWORK_CLIENT);
	network_remember(socket, id, NETWORK_CLIENT, sk->__sk_common.skc_dport);
	record = network_record(id);
	if (record)
		network_observe(&record->operations[NETWORK_CONNECT], took);
	return 0;
}

/*
 * A handshake has come to nothing. Without an error of the socket it was given up, or
 * has not begun after all: then the thread is in its connect() still, whose end says why.
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
 * A connection has come to a listener. Whose it becomes is known when somebody accepts
 * it; who runs is anybody. That it was accepted is known now, and once nobody listens
 * any more, by nothing else.
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
	return 0;
}

/*
 * A connection ends in the close() of the running thread: that is counted where its
 * transfers are, of which the call itself cannot ask the socket. Its peer may have been
 * found out since, or another process have used the other end. Before 6.6 it ends when
 * the call has returned, and has been counted.
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
 * Whether a process may still read from a socket of MPTCP that is closed now. The kernel's
 * worker closes it under a process that has it: when that gives it up, or has it connect
 * anew, it is closed once more. All else is the process's own doing.
 */
static __always_inline bool network_may_be_read(const struct sock *sk, int before)
{
	struct task_struct *task = network_task();

	return before != TCP_CLOSE && BPF_CORE_READ(sk, sk_socket) && TASK_READ(task, flags) & PF_KTHREAD;
}

/* A connection is over: another socket may be remembered in place of its. */
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
	network_listens(&tuple, &who); /* in scope or not: it says whose side the others are on */
	if (!network_is_outside(network_task()))
		network_bind(sk, NETWORK_SERVER);
	if (!network_socket_of(sk))
		network_mark(sk); /* or a walk over all files counts it once more */
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
	struct network_series *series;
	struct network_record *record;
	u8 state;

	sockets_seen += 1;
	if (network_is_unclaimed(socket) && BPF_CORE_READ(sk, sk_socket))
		network_claim(sk);
	series = network_remembered(socket);
	if (!series)
		return;
	if (socket_storage && series->key.transport == NETWORK_TCP && !socket->has_rtt)
		return; /* one of MPTCP: its subflows are counted, where they are found: they have no files */
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
