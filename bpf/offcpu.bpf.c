// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Off-CPU time: how long threads wait, where and why. A wait begins when a thread leaves its CPU, blocked or
 * still runnable, and ends when it runs again. It is recorded then. Its stack is taken after the wait, by the
 * thread itself: only then it is known that the wait was long enough, and only there the thread's memory can
 * be read.
 *
 * Hooks: tp_btf sched_switch measures; the stack is taken at tp_btf sched_exit_tp if the kernel has it,
 * otherwise at a kprobe of finish_task_switch. Both run on the same CPU as the switch before them, with
 * preemption off in between, so that the measurement is kept in memory of the CPU. Neither nests. If there is
 * no such hook, sched_switch does both (switched_alone): the stack is taken as the thread leaves
 * (departure.h). Kernels: 5.10 and later.
 *
 * The time at which a thread left is in its task storage if sched_switch may use it (since 6.4), otherwise in
 * a hash map by thread id.
 */
#include "include/subject.h"
#include "include/block_reason.h"
#include "include/departure.h"

OBSERVES(SCOPE_OFF_CPU);

#include <bpf/bpf_tracing.h>

/* State of a thread. */
struct offcpu_thread {
	u64 since;       /* CLOCK_MONOTONIC, ns, when it left its CPU; 0: it runs */
	u64 short_ns;    /* sum of waits below min_block that were not recorded yet */
	u32 short_count;
	u32 epoch;       /* when its scope was last checked */
	u32 state;       /* task_struct.__state when it left, 0: runnable; in switched_alone enum block_reason */
	u32 switches;    /* switches_of() when it left */
	u16 excluded;    /* 1: out of scope */
	u16 unused[3];
};

/* State of a CPU. */
struct offcpu_cpu {
	u64 waited;       /* ns, of the thread that is being switched to; 0: nothing to record */
	u64 over_max;     /* waits that were longer than max_block */
	u64 lost_thread;  /* times that there was no memory for the state of a thread: its wait is lost */
	u64 lost_untold;  /* waits whose end the second hook missed */
	u64 stackless;    /* waits recorded without a stack, as none was kept */
	u64 lost_unseen;  /* waits of threads that ran unnoticed in between */
	u32 state;        /* of the thread that is being switched to */
	u32 unused;
};

volatile const bool task_storage = true;

/* In ns. Set by user space at any time; 0: no maximum. */
volatile u64 min_block = 1000000;
volatile u64 max_block;

/* Incremented by user space about once per second: the scope of each process is checked again. */
volatile u32 epoch = 1;

/*
 * Processes that were found out of scope in this epoch, by thread group id: they and the switches between
 * them need no map look-up. Words are read and written atomically, so that no lock is needed. A process whose
 * word was overwritten is looked up again.
 */
#define OUT_OF_SCOPE_SLOTS 1024 /* a power of two */
static u64 out_of_scope[OUT_OF_SCOPE_SLOTS];

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct offcpu_thread);
} offcpu_threads SEC(".maps");

/* By thread id, on kernels without task storage. The loader sets the size. */
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

/* Keeps these types in BTF, from which bpf2go generates the Go types. */
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

/* Kernel threads only wait for work: they are left out. */
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

/* Returns how often a thread has left a CPU. If it differs when the thread runs again, it ran in between. */
static __always_inline u32 switches_of(struct task_struct *task)
{
	struct task_struct___switches *counted = (void *)task;

	return counted->nvcsw + counted->nivcsw;
}

/* Returns a value for a program in this epoch, never 0. Pids have 22 bits (PID_MAX_LIMIT). */
static __always_inline u64 out_of_scope_key(const struct task_struct *task)
{
	return ((u64)task->tgid << 42) | ((task->self_exec_id & 0xffff) << 26) | (epoch & 0x3ffffff);
}

static __always_inline bool is_outside(const struct task_struct *task)
{
	return out_of_scope[task->tgid & (OUT_OF_SCOPE_SLOTS - 1)] == out_of_scope_key(task);
}

/* Records the running thread's short waits together, without a stack. */
static __always_inline void record_short(struct offcpu_thread *thread, const struct stack_subject *who)
{
	struct stack_table *table;
	struct stack_entry *entry;

	table = stack_table();
	if (!table)
		return;
	entry = stack_begin(table, who, thread->short_count);
	if (!entry)
		goto clear;
	entry->values[0] = thread->short_ns;
	entry->tag = BLOCK_SHORT;
	stack_end(table, entry, 0);
clear:
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

/* The running thread leaves the CPU. alone: no other hook runs when it runs again. */
static __always_inline void leave(void *ctx, struct task_struct *task, bool preempt, u64 now, bool alone)
{
	struct offcpu_thread *thread = thread_of(task);
	u32 state = task_state(task), tid = task->pid;
	struct stack_subject who = {};
	struct offcpu_cpu *cpu;

	if (!thread || thread->excluded || thread->epoch != epoch || state & TASK_DEAD) {
		/* At times, at the thread's exit, and each time that it is out of scope. */
		bool wanted = subject_running(&who, scope_bit);

		if (thread && thread->short_count && wanted)
			record_short(thread, &who);
		if (state & TASK_DEAD) {
			if (!task_storage)
				bpf_map_delete_elem(&offcpu_thread_ids, &tid);
			if (alone)
				departure_forget(tid);
			return;
		}
		if (!wanted) {
			out_of_scope[task->tgid & (OUT_OF_SCOPE_SLOTS - 1)] = out_of_scope_key(task);
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

/* Reports whether a process is in scope, as far as is known: losses of others do not count. */
static __always_inline bool is_in_scope(const struct task_struct *task)
{
	u32 pid = task->tgid;

	return !scope_excludes(bpf_map_lookup_elem(&scope, &pid), scope_bit);
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
		cpu->lost_unseen += is_in_scope(task);
		return now;
	}
	if (max_block && waited > max_block) {
		cpu->over_max += is_in_scope(task);
		return now;
	}
	if (alone) {
		if (!departure_report(task, thread->state, waited))
			cpu->stackless += is_in_scope(task);
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
	/* What is kept of a thread is removed with it. */
	if (!is_kernel_thread(prev) && (!is_outside(prev) || task_state(prev) & TASK_DEAD))
		leave(ctx, prev, preempt, now, alone);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return switches(ctx, preempt, prev, next, false);
}

/* For kernels without another hook. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switched_alone, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return switches(ctx, preempt, prev, next, true);
}

/* Records where and why the running thread has waited, for long enough. */
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
	stack_end(table, entry, stack_take(ctx, saved_registers(), entry, who.space, 0));
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
