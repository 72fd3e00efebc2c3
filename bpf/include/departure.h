/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Stacks of threads that leave their CPU, kept until they run again. Off-CPU time needs them on kernels
 * without a hook that runs in a thread after its wait. Most of them are for waits that turn out to be short,
 * hence the budget.
 */
#ifndef EBPFRECEIVER_DEPARTURE_H
#define EBPFRECEIVER_DEPARTURE_H

#include "subject.h"

/* The number of stacks per CPU and interval, at some 3 µs each. */
#define DEPARTURES 256
#define DEPARTURES_NS 100000000ULL

struct departure {
	u64 bytes; /* of frames */
	struct stack_entry entry; /* that the wait is recorded in if it is long enough; its frames follow */
};

/* By thread id. The loader sets the number of entries and, by the depth of stacks, the size of values. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct departure) + 2 * HELPER_BYTES);
} departures SEC(".maps");

/* Scratch for one value. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct departure) + 2 * HELPER_BYTES);
} departing SEC(".maps");

struct departure_budget {
	u64 window; /* CLOCK_MONOTONIC, ns: beginning of the interval */
	u32 taken;  /* stacks taken in the interval */
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct departure_budget);
} departure_budgets SEC(".maps");

/* Reports whether the budget of this CPU allows another stack. */
static __always_inline bool departure_affordable(u64 now)
{
	u32 zero = 0;
	struct departure_budget *budget = bpf_map_lookup_elem(&departure_budgets, &zero);

	if (!budget)
		return false;
	if (now - budget->window >= DEPARTURES_NS) {
		budget->window = now;
		budget->taken = 0;
	}
	if (budget->taken >= DEPARTURES)
		return false;
	budget->taken += 1;
	return true;
}

/* Keeps the stack of the running thread, which leaves its CPU, until it runs again. */
static __always_inline void departure_keep(void *ctx, struct task_struct *task, u64 now)
{
	u32 tid = task->pid, pid = task->tgid, zero = 0;
	struct departure *departure;
	struct scope_entry *known;
	struct stack_table *table;

	table = stack_table();
	departure = bpf_map_lookup_elem(&departing, &zero);
	if (!table || !departure || !departure_affordable(now)) {
		bpf_map_delete_elem(&departures, &tid); /* that of the previous wait */
		return;
	}
	known = bpf_map_lookup_elem(&scope, &pid);
	departure->entry.count = 0; /* nothing is recorded yet */
	departure->entry.user_end = 0;
	departure->entry.caller = 0;
	departure->entry.user_frames = 0;
	departure->entry.kernel_frames = 0;
	departure->bytes = stack_take(ctx, saved_registers(), &departure->entry, known ? known->space : 0, 0);
	bpf_map_update_elem(&departures, &tid, departure, BPF_ANY);
}

static __always_inline void departure_forget(u32 tid) { bpf_map_delete_elem(&departures, &tid); }

/* Copies a kept stack to the entry of its wait; returns the number of bytes of frames. */
static __always_inline u32 departure_copy(struct stack_entry *entry, const struct departure *departure)
{
	u64 bytes = departure->bytes;

	if (bytes > entry_bytes - sizeof(struct stack_entry))
		return 0; /* never happens; bounds the size for the verifier */
	entry->user_end = departure->entry.user_end;
	entry->caller = departure->entry.caller;
	entry->user_frames = departure->entry.user_frames;
	entry->kernel_frames = departure->entry.kernel_frames;
	bpf_probe_read_kernel(entry->frames, bytes, departure->entry.frames);
	return bytes;
}

/*
 * Records the wait of a thread that is about to run, with the stack that was kept. False: none was, and the
 * wait is recorded without a stack.
 */
static __always_inline bool departure_report(struct task_struct *task, u32 reason, u64 waited)
{
	struct stack_subject who = {
		.start_boottime = process_start(task), .pid = task->tgid, .tid = task->pid, .exec_id = process_exec_id(task),
	};
	struct departure *departure;
	struct stack_entry *entry;
	struct stack_table *table;
	u32 bytes = 0;

	table = stack_table();
	if (!table)
		return true;
	entry = stack_begin(table, &who, 1);
	if (!entry)
		return true;
	entry->values[0] = waited;
	entry->tag = reason;
	departure = bpf_map_lookup_elem(&departures, &who.tid);
	if (departure)
		bytes = departure_copy(entry, departure);
	if (stack_keep(table, entry, bytes))
		bpf_probe_read_kernel(entry->comm, sizeof(entry->comm), task->comm);
	return departure;
}

#endif
