/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Adopts sockets that existed before the start.
 */
#ifndef EBPFRECEIVER_NETWORK_ADOPT_H
#define EBPFRECEIVER_NETWORK_ADOPT_H

#include "network_file.h"
#include "network_transfer.h"

/*
 * The purpose of an iteration over all open files. The first one requests decisions about processes and
 * records clients, so that servers find them in any order. The last one takes undecided processes for in
 * scope, as calls do: user space leaves them out later if they are not.
 */
enum network_walk {
	NETWORK_WALK_NOTES = 0,
	NETWORK_WALK_DECIDED = 1,
	NETWORK_WALK_ALL = 2,
};

volatile u32 walk; /* enum network_walk, set by user space */

/* Sockets of processes that were undecided in this iteration: another iteration is needed. */
u32 sockets_undecided;

/*
 * Adopts a UDP socket that is not connected. Its datagrams have series of their own. Its process is recorded
 * if it is a server, for dropped packets; the first datagram shows any other user of the socket.
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

/* Records the client of a connection, so that the server's series names it. */
static __noinline int adopt_client(const struct sock *sk, const struct network_process *who)
{
	struct network_tuple tuple = {}, end = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	if (!tuple.remote_port || network_role_of(sk, &tuple) != NETWORK_CLIENT)
		return 0;
	network_read_sequence(&tuple, sk, NETWORK_CLIENT);
	network_reverse(&end, &tuple);
	verifier_forget(&end, sizeof(end));
	network_note_end(&end, who, NETWORK_CLIENT);
	return 0;
}

/*
 * Adopts a listening socket of any process. Its state marks it as counted, as several files and processes may
 * have it. If it can have no state, all sockets of a port count as one.
 */
static __noinline int adopt_listener(struct sock *sk, const struct network_process *who)
{
	struct network_tuple tuple = {};

	network_read_tuple(&tuple, sk, NETWORK_TCP);
	if (network_mark(sk) || !network_listener(&tuple))
		network_listens(&tuple, who);
	return 0;
}

/*
 * Reports whether the sockets of a process are counted in this iteration. Requests a decision if there is
 * none.
 */
static __always_inline bool adopt_decision(const struct network_process *who)
{
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &who->pid);

	if (known && known->bits & SCOPE_DECIDED)
		return !scope_excludes(known, scope_bit);
	sockets_undecided += 1; /* user space will have decided when this runs again */
	scope_discover(known, who->pid, who->start_boottime, who->exec_id);
	return walk != NETWORK_WALK_DECIDED;
}

/*
 * Adopts the socket of an open file if its process is in scope. Listeners are recorded for all processes.
 * Other sockets are skipped before more than their state is read, which is in no cache in most cases.
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
	inside = adopt_decision(&who);
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
