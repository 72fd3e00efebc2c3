/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The running thread: whether its process is in scope, and when its system call began.
 */
#ifndef EBPFRECEIVER_NETWORK_THREAD_H
#define EBPFRECEIVER_NETWORK_THREAD_H

#include "network.h"

/* Reads a member of a task: without a helper call since bpf_get_current_task_btf (Linux 5.11). */
#define HAS_TASK_BTF bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)
#define TASK_READ(task, member) (HAS_TASK_BTF ? (task)->member : BPF_CORE_READ(task, member))

/*
 * Processes that were found out of scope in this epoch, by thread group id: they need no map look-up. Words
 * are read and written atomically, so that no lock is needed. A process whose word was overwritten is looked
 * up again.
 */
#define OUT_OF_SCOPE_SLOTS 1024 /* a power of two */
static u64 out_of_scope[OUT_OF_SCOPE_SLOTS];

static __always_inline struct task_struct *network_task(void)
{
	if (HAS_TASK_BTF)
		return bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

/* Returns a value for a program in this epoch, never 0. Pids have 22 bits (PID_MAX_LIMIT). */
static __always_inline u64 out_of_scope_key(u32 pid, u32 exec_id)
{
	return ((u64)pid << 42) | ((u64)(exec_id & 0xffff) << 26) | (epoch & 0x3ffffff);
}

/* Reports whether a task's process is out of scope. Kernel threads are: they work for other processes. */
static __always_inline bool network_is_out_of_scope(struct task_struct *task)
{
	u32 pid = TASK_READ(task, tgid), exec_id = TASK_READ(task, self_exec_id);

	return out_of_scope[pid & (OUT_OF_SCOPE_SLOTS - 1)] == out_of_scope_key(pid, exec_id) || TASK_READ(task, flags) & PF_KTHREAD;
}

/*
 * Reports whether a process is in scope, as far as is known. A process that is not is remembered for this
 * epoch.
 */
static __always_inline bool network_in_scope(u32 pid, u32 exec_id)
{
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &pid);

	if (!scope_excludes(known, scope_bit))
		return true;
	out_of_scope[pid & (OUT_OF_SCOPE_SLOTS - 1)] = out_of_scope_key(pid, exec_id);
	return false;
}

/* Gets the process of the running thread. */
static __always_inline void network_current(struct network_process *who)
{
	who->pid = bpf_get_current_pid_tgid() >> 32;
	process_current(&who->start_boottime, &who->exec_id);
}

/*
 * Gets the process of the running thread if it is in scope. Requests a decision of user space about an
 * unknown process.
 */
static __always_inline bool network_discover(struct network_process *who)
{
	network_current(who);
	if (!network_in_scope(who->pid, who->exec_id))
		return false;
	scope_discover(bpf_map_lookup_elem(&scope, &who->pid), who->pid, who->start_boottime, who->exec_id);
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

/*
 * Returns the state of the running thread if the beginning of its call was recorded and its process is in
 * scope.
 */
static __always_inline struct network_thread *network_calling(struct task_struct *task)
{
	struct network_thread *thread;

	if (network_is_out_of_scope(task))
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
 * Gets when a thread was last scheduled, and the CPU time that it had used until then. The clock of
 * exec_start excludes the time that the hypervisor has stolen, which differs between CPUs; kernels without
 * CONFIG_SCHED_INFO have no other.
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

/* Stores the scheduler's account of a thread whose call, or message, begins. */
static __always_inline void network_start(struct task_struct *task, struct network_thread *thread)
{
	network_ran(task, &thread->ran, &thread->arrived);
	thread->switches = TASK_READ(task, nvcsw);
}

/* Begins a call of the running thread. 0: the process is out of scope, as far as is known. */
static __always_inline struct network_thread *network_begin(u32 call)
{
	struct task_struct *task = network_task();
	struct network_thread *thread;

	if (network_is_out_of_scope(task))
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
 * Returns how long the running thread has worked since its call began, and how long it has waited. It has
 * worked all of the time unless it left the CPU voluntarily; then, the CPU time that it has used by the
 * scheduler's account. The scheduler's clock is not slewed.
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
