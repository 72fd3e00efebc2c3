// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The life of processes, for every observation: fork, exec and exit keep the
 * map scope true and tell user space, without a wake-up.
 *
 * Hooks: tp_btf sched_process_fork, sched_process_exec, sched_process_exit.
 * Kernels: 5.10 and newer. The arguments used are the same in all of them;
 * sched_process_exit gained a second one in 6.16 that is not needed here.
 */
#include "include/process.h"

#include <bpf/bpf_tracing.h>

/* Keep these types in the BTF, from which the Go types are made. */
const struct process_event *unused_process_event __attribute__((unused));
const enum process_event_type *unused_process_event_type __attribute__((unused));
const struct scope_entry *unused_scope_entry __attribute__((unused));
const enum scope_bit *unused_scope_bit __attribute__((unused));
const enum process_loss *unused_process_loss __attribute__((unused));

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 parent_pid = BPF_CORE_READ(parent, tgid);
	u32 pid = BPF_CORE_READ(child, tgid);

	if (pid == parent_pid)
		return 0; /* a thread */
	scope_fork(parent_pid, pid);
	process_tell(PROCESS_FORK, pid, parent_pid, BPF_CORE_READ(child, start_boottime), process_exec_id(child));
	return 0;
}

/* A program is replaced: what was decided about the process holds no longer. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	u32 pid = BPF_CORE_READ(task, tgid);

	bpf_map_delete_elem(&scope, &pid);
	process_tell(PROCESS_EXEC, pid, 0, process_start(task), process_exec_id(task));
	return 0;
}

/*
 * signal->live has been counted down when the tracepoint is reached
 * (kernel/exit.c, do_exit), so 0 means that no thread is left. Two threads that
 * exit at once may both see 0: the second event finds nothing to do.
 *
 * A decision stays: the last thread runs on for a while and may be sampled
 * still. User space removes it when it is done with the process.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	u32 pid = BPF_CORE_READ(task, tgid);

	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	scope_exit(pid);
	process_tell(PROCESS_EXIT, pid, 0, process_start(task), process_exec_id(task));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
