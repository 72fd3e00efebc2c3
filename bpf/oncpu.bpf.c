// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * On-CPU samples. A perf event on every CPU runs sample(); equal (process, thread, stack) are one entry with
 * a count in the CPU's table.
 *
 * Hooks: perf_event (cpu-clock or cycles), whose programs do not nest. Kernels: 5.10 and later.
 */
#define STACK_SUMS 0

#include "include/subject.h"

OBSERVES(SCOPE_ON_CPU);

/* Keeps these types in BTF, from which bpf2go generates the Go types. */
const struct unwind_page *unused_unwind_page __attribute__((unused));
const struct unwind_space *unused_unwind_space __attribute__((unused));
const enum unwind_end *unused_unwind_end __attribute__((unused));
const enum unwind_cfa *unused_unwind_cfa __attribute__((unused));
const enum unwind_save *unused_unwind_save __attribute__((unused));

/*
 * Discovers the processes that run at the start before sampling begins, so that their first samples find
 * unwind tables.
 */
SEC("perf_event")
int meet(struct bpf_perf_event_data *ctx)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32, exec_id;
	u64 start_boottime;

	if (bpf_map_lookup_elem(&scope, &pid))
		return 0;
	process_current(&start_boottime, &exec_id);
	scope_discover(0, pid, start_boottime, exec_id);
	return 0;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct stack_subject who;
	struct stack_table *table;
	struct stack_entry *entry;

	if (!subject_running(&who, scope_bit))
		return 0;
	table = stack_table();
	if (!table)
		return 0;
	entry = stack_begin(table, &who, 1);
	if (!entry)
		return 0;
	stack_end(table, entry, stack_take(ctx, user_registers(ctx), entry, who.space, 0));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
