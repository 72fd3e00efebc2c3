// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Off-CPU time: how long threads wait, where and why. A wait begins when a thread
 * leaves its CPU (blocked, or runnable still) and ends when it runs again, and is
 * told then. Its stack is taken after the wait, by the thread itself: only then is it
 * known that the wait was long enough, and only there can the thread's memory be read.
 *
 * Hooks: tp_btf sched_switch measures; the stack is taken at tp_btf sched_exit_tp
 * where the kernel has it, else at a kprobe of finish_task_switch. Both run on the
 * same CPU as the switch before them, with preemption off in between, so that
 * what the one has measured waits for the other in memory of the CPU. Neither
 * nests. Where there is no such hook sched_switch does it all (switched_alone): the
 * stack is taken as the thread leaves (departure.h). Kernels: 5.10 and newer.
 *
 * When a thread left is kept in its task storage where the kernel allocates it so
 * that sched_switch may ask for it; before (6.4) in a hash map by thread id.
 */
#include "include/subject.h"
#include "include/block_reason.h"
#include "include/departure.h"

OBSERVES(SCOPE_OFF_CPU);

#include <bpf/bpf_tracing.h>

/* What is known of a thread. */
struct offcpu_thread {
	u64 since;       /* CLOCK_MONOTONIC, ns, when it left its CPU; 0: it runs */
	u64 short_ns;    /* waits below min_block that were not told yet */
	u32 short_count;
	u32 epoch;       /* when its scope was last looked at */
	u32 state;       /* task_struct.__state when it left, 0: runnable; in switched_alone enum block_reason */
	u32 switches;    /* switches_of() when it left */
	u16 excluded;    /* 1: out of scope */
	u16 unused[3];
};

/* What is known of a CPU. */
struct offcpu_cpu {
	u64 waited;       /* ns, of the thread that is being switched to; 0: nothing to tell */
	u64 over_max;     /* waits that were longer than max_block */
	u64 lost_thread;  /* times that there was no memory for a thread: its wait is lost */
	u64 lost_untold;  /* waits whose end the second hook did not see */
	u64 stackless;    /* waits told without the stack, of which there was none left */
	u64 lost_unseen;  /* waits of threads that ran unseen in between */
	u32 state;        /* of the thread that is being switched to */
	u32 unused;
};

volatile const bool task_storage = true;

/* In ns. Set by user space at any time; 0: no maximum. */
volatile u64 min_block = 1000000;
volatile u64 max_block;

/* Counted up by user space about once a second: scopes are looked at again. */
volatile u32 epoch = 1;

/*
 * Programs that were found out of scope in this epoch, by thread group id: what
 * spares them, and all switches between them, any look-up. A word is whole at any
 * time, so no lock is needed; one that another has overwritten is looked up again.
 */
#define OUTSIDE_SLOTS 1024 /* a power of two */
static u64 outside[OUTSIDE_SLOTS];

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct offcpu_thread);
} offcpu_threads SEC(".maps");

/* By thread id, where there is no task storage. Sized by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct offcpu_thread);
} offcpu_thread_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct offcpu_cpu);
} offcpu_cpus SEC(".maps");

/* Keep these types in the BTF, from which the Go types are made. */
const struct offcpu_thread *unused_offcpu_thread __attribute__((unused));
const struct offcpu_cpu *unused_offcpu_cpu __attribute__((unused));
const enum block_reason *unused_block_reason __attribute__((unused));

static __always_inline struct offcpu_cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&offcpu_cpus, &zero);
}

static __always_inline struct offcpu_thread *thread_of(struct task_struct *task)
{
	u32 tid;

	if (task_storage)
		return bpf_task_storage_get(&offcpu_threads, task, 0, 0);
	tid = task->pid;
	return bpf_map_lookup_elem(&offcpu_thread_ids, &tid);
}

static __always_inline struct offcpu_thread *create_thread(struct task_struct *task)
{
	struct offcpu_thread fresh = { .epoch = epoch };
	u32 tid;

	if (task_storage)
		return bpf_task_storage_get(&offcpu_threads, task, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE);
	tid = task->pid;
	bpf_map_update_elem(&offcpu_thread_ids, &tid, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&offcpu_thread_ids, &tid);
}

/* Kernel threads wait for work and for nothing else: they are left out. */
static __always_inline bool is_kernel_thread(const struct task_struct *task)
{
	return !task->pid || task->flags & PF_KTHREAD;
}

/* The field was called state before 5.14. */
static __always_inline u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___before_5_14 *)task)->state;
}

struct task_struct___switches {
	unsigned long nvcsw, nivcsw;
} __attribute__((preserve_access_index));

/* How often a thread has left a CPU: the same when it runs again as when it left, unless it ran in between. */
static __always_inline u32 switches_of(struct task_struct *task)
{
	struct task_struct___switches *counted = (void *)task;

	return counted->nvcsw + counted->nivcsw;
}

/* Names a program in this epoch: pids have 22 bits (PID_MAX_LIMIT); never 0. */
static __always_inline u64 outside_name(const struct task_struct *task)
{
	return ((u64)task->tgid << 42) | ((task->self_exec_id & 0xffff) << 26) | (epoch & 0x3ffffff);
}

static __always_inline bool is_outside(const struct task_struct *task)
{
	return outside[task->tgid & (OUTSIDE_SLOTS - 1)] == outside_name(task);
}

/* Tells the running thread's short waits together, without a stack. */
static __always_inline void tell_short(struct offcpu_thread *thread, const struct stack_subject *who)
{
	struct stack_table *table;
	struct stack_entry *entry;

	table = stack_table();
	if (!table)
		return;
	entry = stack_begin(table, who, thread->short_count);
	if (!entry)
		goto told;
	entry->values[0] = thread->short_ns;
	entry->tag = BLOCK_SHORT;
	stack_end(table, entry, 0);
told:
	thread->short_ns = 0;
	thread->short_count = 0;
}

static __always_inline void exclude(struct offcpu_thread *thread)
{
	thread->excluded = 1;
	thread->since = 0;
	thread->short_ns = 0;
	thread->short_count = 0;
}

/* The running thread leaves the CPU. alone: no other hook sees it run again. */
static __always_inline void leave(void *ctx, struct task_struct *task, bool preempt, u64 now, bool alone)
{
	struct offcpu_thread *thread = thread_of(task);
	u32 state = task_state(task), tid = task->pid;
	struct stack_subject who = {};
	struct offcpu_cpu *cpu;

	if (!thread || thread->excluded || thread->epoch != epoch || state & TASK_DEAD) {
		/* Once in a while, at the thread's end, and each time when it is out of scope. */
		bool wanted = subject_running(&who, scope_bit);

		if (thread && thread->short_count && wanted)
			tell_short(thread, &who);
		if (state & TASK_DEAD) {
			if (!task_storage)
				bpf_map_delete_elem(&offcpu_thread_ids, &tid);
			if (alone)
				departure_forget(tid);
			return;
		}
		if (!wanted) {
			outside[task->tgid & (OUTSIDE_SLOTS - 1)] = outside_name(task);
			if (thread)
				exclude(thread);
			return;
		}
		if (!thread)
			thread = create_thread(task);
		if (!thread) {
			cpu = this_cpu();
			if (cpu)
				cpu->lost_thread += 1;
			return;
		}
		thread->epoch = epoch;
		thread->excluded = 0;
	}
	thread->state = preempt ? 0 : state;
	thread->since = now ? now : bpf_ktime_get_ns();
	thread->switches = switches_of(task);
	if (alone) {
		thread->state = block_reason_of(task, thread->state);
		departure_keep(ctx, task, thread->since);
	}
}

/* A thread is about to run again, on this CPU. */
static __always_inline u64 arrive(struct task_struct *task, bool alone)
{
	struct offcpu_thread *thread = thread_of(task);
	struct offcpu_cpu *cpu;
	u64 now, waited;

	if (!thread || !thread->since)
		return 0;
	now = bpf_ktime_get_ns();
	waited = now - thread->since;
	thread->since = 0;
	if (waited < min_block) {
		thread->short_ns += waited;
		thread->short_count += 1;
		return now;
	}
	cpu = this_cpu();
	if (!cpu)
		return now;
	if (thread->switches != switches_of(task)) { /* such as while its process was out of scope */
		cpu->lost_unseen += 1;
		return now;
	}
	if (max_block && waited > max_block) {
		cpu->over_max += 1;
		return now;
	}
	if (alone) {
		if (!departure_tell(task, thread->state, waited))
			cpu->stackless += 1;
		return now;
	}
	if (cpu->waited)
		cpu->lost_untold += 1;
	cpu->waited = waited;
	cpu->state = thread->state;
	return now;
}

static __always_inline int switches(void *ctx, bool preempt, struct task_struct *prev, struct task_struct *next, bool alone)
{
	u64 now = 0;

	if (!is_kernel_thread(next) && !is_outside(next))
		now = arrive(next, alone);
	/* What is kept of a thread must go with it. */
	if (!is_kernel_thread(prev) && (!is_outside(prev) || task_state(prev) & TASK_DEAD))
		leave(ctx, prev, preempt, now, alone);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return switches(ctx, preempt, prev, next, false);
}

/* Where no other hook is to be had. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switched_alone, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return switches(ctx, preempt, prev, next, true);
}

/* The running thread has waited, for long enough: where and why. */
static __always_inline int resumed(void *ctx)
{
	struct offcpu_cpu *cpu = this_cpu();
	struct stack_subject who = {};
	struct stack_table *table;
	struct stack_entry *entry;
	struct task_struct *task;
	u64 waited;

	if (!cpu || !cpu->waited)
		return 0;
	waited = cpu->waited;
	cpu->waited = 0;
	task = (struct task_struct *)bpf_get_current_task();
	if (!subject_running(&who, scope_bit))
		return 0;
	table = stack_table();
	if (!table)
		return 0;
	entry = stack_begin(table, &who, 1);
	if (!entry)
		return 0;
	entry->values[0] = waited;
	entry->tag = block_reason_of(task, cpu->state);
	stack_end(table, entry, stack_take(ctx, saved_registers(), table, entry, who.space, 0));
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(resumed_at_exit, bool is_switch)
{
	return resumed(ctx);
}

SEC("kprobe/finish_task_switch")
int resumed_at_finish(struct pt_regs *ctx)
{
	return resumed(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
