/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sockets from before the start.
 */
#ifndef EBPFRECEIVER_NETWORK_ADOPT_H
#define EBPFRECEIVER_NETWORK_ADOPT_H

#include "network_file.h"
#include "network_transfer.h"

/*
 * What a walk over all open files is for. The first one asks about processes and notes
 * who is a client, so that servers are told with their clients whoever is met first.
 * The last one takes those not decided upon for in scope, as calls do: user space
 * leaves them out if they are not.
 */
enum network_walk {
	NETWORK_WALK_NOTES = 0,
	NETWORK_WALK_DECIDED = 1,
	NETWORK_WALK_ALL = 2,
};

volatile u32 walk; /* enum network_walk, by user space */

/* Sockets of processes that were not decided upon in this walk: another one is needed. */
u32 sockets_undecided;

/*
 * A UDP socket that is not connected: its series are those of its datagrams. Whose it
 * is is noted of servers', for what they drop; whoever has used it last is known by the
 * first datagram.
 */
static __noinline int adopt_receiver(struct sock *sk, const struct network_process *who)
{
	struct network_tuple tuple = {};

	if (!(BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_BINDPORT_LOCK))
		return 0;
	network_datagram_socket(sk, NETWORK_READ);
	network_read_tuple(&tuple, sk, NETWORK_UDP);
	network_receives(&tuple, who);
	return 0;
}

/* A connection's client: its server is told with it. */
static __noinline int adopt_client(const struct sock *sk, const struct network_process *who)
{
	struct network_tuple tuple = {}, end = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	if (!tuple.remote_port || network_role_of(sk, &tuple) != NETWORK_CLIENT)
		return 0;
	network_tell_apart(&tuple, sk, NETWORK_CLIENT);
	network_turn(&end, &tuple);
	network_forget(&end, sizeof(end));
	network_note_end(&end, who, NETWORK_CLIENT);
	return 0;
}

/*
 * A socket listens, of whomever: it is remembered, so that it is counted once though
 * several files and processes may have it. Where it cannot be, all of a port count as
 * one.
 */
static __noinline int adopt_listener(struct sock *sk, const struct network_process *who)
{
	struct network_tuple tuple = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	if (network_mark(sk) || !network_listener(&tuple))
		network_listens(&tuple, who);
	return 0;
}

/* Tells whether sockets of a process are counted as of this walk; user space is asked about it where it has not decided. */
static __always_inline bool adopts(const struct network_process *who)
{
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &who->pid);

	if (known && known->bits & SCOPE_DECIDED)
		return !scope_excludes(known, scope_bit);
	sockets_undecided += 1; /* user space will have answered when this runs again */
	scope_met(known, who->pid, who->start_boottime, who->exec_id);
	return walk != NETWORK_WALK_DECIDED;
}

/*
 * A process has a file open: if it is a socket in scope, it is counted from now on.
 * Who listens is noted of everybody. What is neither is left out before more of the
 * socket is read than its state: most of it is in no cache.
 */
static __always_inline void adopt(struct task_struct *task, struct file *file)
{
	struct network_process who = {};
	struct network_socket *socket;
	bool inside, listens;
	struct sock *sk;
	u8 state, transport;

	sk = network_sock_of_file(file);
	if (!sk)
		return;
	who.pid = task->tgid;
	who.start_boottime = process_start(task);
	who.exec_id = process_exec_id(task);
	inside = adopts(&who);
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	listens = state == TCP_LISTEN;
	if (!inside && !listens)
		return;
	socket = network_socket_of(sk);
	if (socket && (!listens || network_remembered(socket)))
		return;
	transport = network_transport_of(sk);
	if (listens && transport == NETWORK_TCP && !socket)
		adopt_listener(sk, &who);
	if (!inside || !transport)
		return;
	if (walk == NETWORK_WALK_NOTES) {
		if (transport == NETWORK_TCP && !listens && !BPF_CORE_READ(sk, sk_max_ack_backlog))
			adopt_client(sk, &who);
	} else if (transport == NETWORK_UDP && !BPF_CORE_READ(sk, __sk_common.skc_dport)) {
		adopt_receiver(sk, &who);
	} else {
		network_bind_to(sk, &who, NETWORK_NO_ROLE);
	}
}

#endif
