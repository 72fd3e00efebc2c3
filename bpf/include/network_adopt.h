/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sockets from before the start.
 */
#ifndef EBPFRECEIVER_NETWORK_ADOPT_H
#define EBPFRECEIVER_NETWORK_ADOPT_H

#include "network_file.h"
#include "network_transfer.h"

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
	network_datagram_role(sk, NETWORK_READ);
	network_read_tuple(&tuple, sk, NETWORK_UDP);
	network_receives(&tuple, who);
	return 0;
}

/*
 * A process has a file open: if it is a socket in scope, it is counted from now on.
 * Who listens is noted of everybody. What is neither is left out before more of the
 * socket is read than its state: most of it is in no cache.
 */
static __always_inline void adopt(struct task_struct *task, struct file *file)
{
	struct network_process who = {};
	struct network_tuple tuple = {};
	struct scope_entry *known;
	bool listens, inside;
	struct sock *sk;
	u8 transport;

	sk = network_sock_of_file(file);
	if (!sk)
		return;
	who.pid = task->tgid;
	who.start_boottime = process_start(task);
	who.exec_id = process_exec_id(task);
	known = bpf_map_lookup_elem(&scope, &who.pid);
	inside = known && known->bits & SCOPE_DECIDED;
	if (!inside) {
		sockets_undecided += 1; /* user space will have answered when this runs again */
		scope_met(known, who.pid, who.start_boottime, who.exec_id);
	} else if (scope_excludes(known, SCOPE_NETWORK)) {
		inside = false;
	}
	listens = BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN;
	if (!inside && !listens)
		return;
	if (network_socket_of(sk))
		return;
	transport = network_transport_of(sk);
	if (listens && transport == NETWORK_TCP) {
		network_read_tuple(&tuple, sk, transport);
		if (!network_listener(&tuple))
			network_listens(&tuple, &who);
	}
	if (!inside || !transport)
		return;
	if (transport == NETWORK_UDP && !BPF_CORE_READ(sk, __sk_common.skc_dport))
		adopt_receiver(sk, &who);
	else
		network_bind_to(sk, &who, NETWORK_NO_ROLE);
}

#endif
