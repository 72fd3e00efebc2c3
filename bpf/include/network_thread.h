/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who runs: whether its process is in scope, and when its system call began.
 */
#ifndef EBPFRECEIVER_NETWORK_THREAD_H
#define EBPFRECEIVER_NETWORK_THREAD_H

#include "network.h"

/* Reads a member of a task: without a call since bpf_get_current_task_btf (5.11). */
#define HAS_TASK_BTF bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)
#define TASK_READ(task, member) (HAS_TASK_BTF ? (task)->member : BPF_CORE_READ(task, member))

/*
 * Programs that were found out of scope in this epoch, by thread group id: what
 * spares them any look-up. A word is whole at any time, so no lock is needed; one
 * that another has overwritten is looked up again.
 */
#define OUTSIDE_SLOTS 1024 /* a power of two */
static u64 outside[OUTSIDE_SLOTS];

static __always_inline struct task_struct *network_task(void)
{
	if (HAS_TASK_BTF)
		return bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

/* Names a program in this epoch: pids have 22 bits (PID_MAX_LIMIT); never 0. */
static __always_inline u64 outside_name(u32 pid, u32 exec_id)
{
	return ((u64)pid << 42) | ((u64)(exec_id & 0xffff) << 26) | (epoch & 0x3ffffff);
}

/* Kernel threads do what others have asked for. */
static __always_inline bool network_is_outside(struct task_struct *task)
{
	u32 pid = TASK_READ(task, tgid), exec_id = TASK_READ(task, self_exec_id);

	return outside[pid & (OUTSIDE_SLOTS - 1)] == outside_name(pid, exec_id) || TASK_READ(task, flags) & PF_KTHREAD;
}

/* Tells whether a process is in scope as far as is known; one that is not is remembered for this epoch. */
static __always_inline bool network_in_scope(u32 pid, u32 exec_id)
{
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &pid);

	if (!scope_excludes(known, scope_bit))
		return true;
	outside[pid & (OUTSIDE_SLOTS - 1)] = outside_name(pid, exec_id);
	return false;
}

/* Whom the running thread belongs to. */
static __always_inline void network_current(struct network_process *who)
{
	who->pid = bpf_get_current_pid_tgid() >> 32;
	process_current(&who->start_boottime, &who->exec_id);
}

/* The same, if it is in scope; user space is asked where it was not told of the process yet. */
static __always_inline bool network_meet(struct network_process *who)
{
	network_current(who);
	if (!network_in_scope(who->pid, who->exec_id))
		return false;
	scope_met(bpf_map_lookup_elem(&scope, &who->pid), who->pid, who->start_boottime, who->exec_id);
	return true;
}

static __always_inline struct network_thread *network_thread_of(struct task_struct *task)
{
	u32 tid;

	if (task_storage)
		return bpf_task_storage_get(&network_threads, task, 0, 0);
	tid = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&network_thread_ids, &tid);
}

/* The running thread, if the beginning of its call was seen and its process is in scope. */
static __always_inline struct network_thread *network_calling(struct task_struct *task)
{
	struct network_thread *thread;

	if (network_is_outside(task))
		return 0;
	thread = network_thread_of(task);
	return thread && thread->since ? thread : 0;
}

static __always_inline struct network_thread *network_create_thread(struct task_struct *task)
{
	struct network_thread fresh = {};
	u32 tid;

	if (task_storage)
		return bpf_task_storage_get(&network_threads, task, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE);
	tid = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&network_thread_ids, &tid, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&network_thread_ids, &tid);
}

/*
 * When a thread came to its CPU, and the CPU time that it had used until then. The
 * clock of exec_start leaves out what the hypervisor has stolen, of each CPU its own,
 * so that it cannot be compared between two; kernels without CONFIG_SCHED_INFO have
 * no other.
 */
static __always_inline void network_ran(struct task_struct *task, u64 *ran, u64 *arrived)
{
	if (bpf_core_field_exists(struct sched_info, last_arrival)) {
		*ran = TASK_READ(task, se.prev_sum_exec_runtime);
		*arrived = TASK_READ(task, sched_info.last_arrival);
	} else {
		*ran = TASK_READ(task, se.sum_exec_runtime);
		*arrived = TASK_READ(task, se.exec_start);
	}
}

/* What the scheduler says of a thread whose call, or message, begins. */
static __always_inline void network_start(struct task_struct *task, struct network_thread *thread)
{
	network_ran(task, &thread->ran, &thread->arrived);
	thread->switches = TASK_READ(task, nvcsw);
}

/* The running thread begins a call. 0 where it is out of scope, as far as is known. */
static __always_inline struct network_thread *network_begin(u32 call)
{
	struct task_struct *task = network_task();
	struct network_thread *thread;

	if (network_is_outside(task))
		return 0;
	thread = network_thread_of(task);
	if (!thread || thread->epoch != epoch) {
		if (!network_in_scope(TASK_READ(task, tgid), TASK_READ(task, self_exec_id))) {
			if (thread)
				thread->since = 0;
			return 0;
		}
		if (!thread)
			thread = network_create_thread(task);
		if (!thread) {
			network_lost(NETWORK_LOST_THREADS);
			return 0;
		}
		thread->epoch = epoch;
	}
	thread->call = call;
	thread->sock = 0;
	thread->messages = 0;
	thread->series = 0;
	network_start(task, thread);
	thread->since = bpf_ktime_get_ns();
	return thread;
}

/*
 * How long the running thread has worked since its call began, and how long it has
 * waited: all of the time, unless it left the CPU of its own accord; then the CPU
 * time that it has used since, by the scheduler's account. The scheduler's clock is
 * not slewed.
 */
static __always_inline u64 network_worked(struct task_struct *task, const struct network_thread *thread, u64 now, u64 *waited)
{
	u64 took = now - thread->since, ran, arrived;
	s64 worked;

	*waited = 0;
	if (TASK_READ(task, nvcsw) == thread->switches)
		return took;
	network_ran(task, &ran, &arrived);
	worked = ran - thread->ran;
	worked += took - (((s64)(took >> 10) * clock_skew) >> 22);
	worked -= arrived - thread->arrived;
	if (worked < 0)
		worked = 0;
	if (worked > (s64)took)
		worked = took;
	*waited = took - worked;
	return worked;
}

#endif
