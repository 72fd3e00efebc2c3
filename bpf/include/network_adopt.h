/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sockets from before the start.
 */
#ifndef EBPFRECEIVER_NETWORK_ADOPT_H
#define EBPFRECEIVER_NETWORK_ADOPT_H

#include "network_file.h"
#include "network_transfer.h"

/* A process has a file open: if it is a socket in scope, it is counted from now on. */
static __always_inline void adopt(struct task_struct *task, struct file *file)
{
	struct network_process who = {};
	struct network_tuple tuple = {};
	struct scope_entry *known;
	struct sock *sk;

	if ((file->f_inode->i_mode & S_IFMT) != S_IFSOCK)
		return;
	sk = network_sock_of_file(file);
	if (!sk || !network_transport_of(sk) || network_socket_of(sk))
		return;
	who.pid = task->tgid;
	who.start_boottime = process_start(task);
	who.exec_id = process_exec_id(task);
	network_read_tuple(&tuple, sk, network_transport_of(sk));
	if (network_state_of(sk) == TCP_LISTEN && !network_listener(&tuple))
		network_listens(&tuple, &who);
	known = bpf_map_lookup_elem(&scope, &who.pid);
	if (!known || !(known->bits & SCOPE_DECIDED)) {
		scope_met(known, who.pid, who.start_boottime, who.exec_id);
		return; /* user space will have answered when this runs again */
	}
	if (scope_excludes(known, SCOPE_NETWORK))
		return;
	if (tuple.transport == NETWORK_UDP && !tuple.remote_port)
		return; /* its series are those of its datagrams */
	network_bind_to(sk, &who, NETWORK_NO_ROLE);
}

#endif
