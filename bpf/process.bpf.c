// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The life cycle of processes, for all observations: fork, exec and exit update the map scope and send events
 * to user space, without a wake-up except for bursts of execs.
 *
 * Hooks: tp_btf sched_process_fork, sched_process_exec, sched_process_exit. Kernels: 5.10 and later. The
 * arguments used are the same in all of them; sched_process_exit has a second one since 6.16 that is not
 * needed here.
 */
#include "include/process_environment.h"

#include <bpf/bpf_tracing.h>

/* Keeps these types in BTF, from which bpf2go generates the Go types. */
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

/* Off if the kernel's verifier rejects the search. */
volatile const bool read_environment = true;

/*
 * Sends an exec to user space, with the path, the arguments and the names in the environment of its program
 * unless half of the ring buffer is used: events of processes must not be lost for them. The reader is woken
 * if a quarter is used, because a burst of programs with long arguments fills half of it between two drains.
 */
static __always_inline void exec_tell(struct task_struct *task, u32 pid)
{
	struct exec_scratch *scratch;
	struct process_exec *exec;
	u64 used, waiting;
	u32 zero = 0;

	scratch = bpf_map_lookup_elem(&process_exec_scratch, &zero);
	waiting = bpf_ringbuf_query(&process_events, BPF_RB_AVAIL_DATA);
	if (!read_environment || !scratch || waiting > PROCESS_EVENTS_BYTES / 2) {
		process_tell(PROCESS_EXEC, pid, 0, process_start(task), process_exec_id(task));
		return;
	}
	exec = &scratch->exec;
	exec->whole = environment_find(task, &scratch->search);
	exec->event.start_boottime = process_start(task);
	exec->event.type = PROCESS_EXEC;
	exec->event.pid = pid;
	exec->event.parent_pid = 0;
	exec->event.exec_id = process_exec_id(task);
	bpf_get_current_comm(exec->event.comm, sizeof(exec->event.comm));
	used = exec->path = executable_path(task, &scratch->walk, exec->text) & (2 * EXECUTABLE_PATH - 1);
	exec->arguments = executable_arguments(task, exec->text + used);
	used += exec->arguments & (2 * EXECUTABLE_ARGUMENTS - 1);
	used += environment_append(exec, used, scratch->search.name, ENVIRONMENT_NAME);
	used += environment_append(exec, used, scratch->search.attributes, ENVIRONMENT_ATTRIBUTES);
	if (bpf_ringbuf_output(&process_events, exec, offsetof(struct process_exec, text) + used,
			       waiting > PROCESS_EVENTS_BYTES / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		process_lost(PROCESS_LOST_RING_FULL);
}

/* Replaces a program: the decision about the process is void. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	u32 pid = BPF_CORE_READ(task, tgid);

	bpf_map_delete_elem(&scope, &pid);
	exec_tell(task, pid);
	return 0;
}

/*
 * signal->live has been decremented before the tracepoint (kernel/exit.c, do_exit), so 0 means that no thread
 * is left. If two threads exit concurrently both may read 0: the second event has no effect.
 *
 * A decision stays: the last thread continues for a while and may be sampled. User space removes it when it
 * has processed the exit.
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
