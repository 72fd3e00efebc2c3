/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Stacks of threads that leave their CPU, kept until they run again: the last
 * resort of off-CPU time, where no hook runs in a thread that has waited. Most of
 * them are taken in vain, for waits that turn out to be short, hence the budget.
 */
#ifndef EBPFRECEIVER_DEPARTURE_H
#define EBPFRECEIVER_DEPARTURE_H

#include "subject.h"

/* So many stacks are taken of leaving threads, on each CPU: some 3 µs each. */
#define DEPARTURES 256
#define DEPARTURES_NS 100000000ULL

struct departure {
	u64 bytes; /* of frames */
	struct stack_entry entry; /* what the wait is told by, if it is long; its frames follow */
};

/* By thread id. Sized by the loader, the values too: by how deep stacks are taken. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct departure) + 2 * HELPER_BYTES);
} departures SEC(".maps");

/* Where one of them is made. Its values are as large. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct departure) + 2 * HELPER_BYTES);
} departing SEC(".maps");

struct departure_budget {
	u64 window; /* CLOCK_MONOTONIC, ns, when stacks began to be counted */
	u32 taken;  /* of them, since then */
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct departure_budget);
} departure_budgets SEC(".maps");

/* True when a stack more may be taken of a thread that leaves this CPU. */
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

/* Keeps the stack of the running thread, which leaves, until it runs again. */
static __always_inline void departure_keep(void *ctx, struct task_struct *task, u64 now)
{
	u32 tid = task->pid, pid = task->tgid, zero = 0;
	struct departure *departure;
	struct scope_entry *known;
	struct stack_table *table;

	table = stack_table();
	departure = bpf_map_lookup_elem(&departing, &zero);
	if (!table || !departure || !departure_affordable(now)) {
		bpf_map_delete_elem(&departures, &tid); /* that of the wait before */
		return;
	}
	known = bpf_map_lookup_elem(&scope, &pid);
	departure->entry.count = 0; /* nothing is told yet */
	departure->entry.user_end = 0;
	departure->entry.caller = 0;
	departure->entry.user_frames = 0;
	departure->entry.kernel_frames = 0;
	departure->bytes = stack_take(ctx, saved_registers(), table, &departure->entry, known ? known->space : 0, 0);
	bpf_map_update_elem(&departures, &tid, departure, BPF_ANY);
}

static __always_inline void departure_forget(u32 tid) { bpf_map_delete_elem(&departures, &tid); }

/* Copies what was kept of a thread to the entry by which its wait is told; returns the number of bytes of frames. */
static __always_inline u32 departure_copy(struct stack_entry *entry, const struct departure *departure)
{
	u64 bytes = departure->bytes;

	if (bytes > entry_bytes - sizeof(struct stack_entry))
		return 0; /* cannot be: tells the verifier so */
	entry->user_end = departure->entry.user_end;
	entry->caller = departure->entry.caller;
	entry->user_frames = departure->entry.user_frames;
	entry->kernel_frames = departure->entry.kernel_frames;
	bpf_probe_read_kernel(entry->frames, bytes, departure->entry.frames);
	return bytes;
}

/*
 * A thread that is about to run has waited, for long enough: tells so by what was
 * kept of it. False when nothing was, and the wait is told without a stack.
 */
static __always_inline bool departure_tell(struct task_struct *task, u32 reason, u64 waited)
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
