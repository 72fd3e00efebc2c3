// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Page faults of processes in scope, by stack. Those of user code and those that the kernel takes on a
 * process's pages, as read(2) does.
 *
 * Hooks: tp_btf page_fault_user and page_fault_kernel if the kernel has them (amd64); otherwise a perf event
 * of PERF_COUNT_SW_PAGE_FAULTS that fires at each fault. Kernels: 5.10 and later.
 */
#include "include/subject.h"

OBSERVES(SCOPE_MEMORY);

#include <bpf/bpf_tracing.h>

/* Keeps this type complete in BTF: clang 19 writes shortened types in an order that differs from run to run. */
const struct signal_struct *unused_signal_struct __attribute__((unused));

/* One fault in fault_mask + 1 is sampled, with that weight. 2^n - 1. */
volatile u32 fault_mask;

/* Keeps these types in BTF, from which bpf2go generates the Go types. */
const struct unwind_state *unused_unwind_state __attribute__((unused));

/* Reports whether to sample this fault, and gets its thread. */
static __always_inline bool fault_wanted(struct stack_subject *who)
{
	if (fault_mask && (bpf_get_prandom_u32() & fault_mask))
		return false;
	return subject_running(who, scope_bit);
}

/* Counts a fault with the user stack that begins at walk's registers. */
static __always_inline void fault_count(void *ctx, struct stack_table *table, struct unwind_state *walk,
					const struct stack_subject *who)
{
	struct stack_entry *entry = stack_begin(table, who, fault_mask + 1);

	if (entry)
		stack_end(table, entry, stack_take(ctx, walk, entry, who->space, 0));
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct stack_subject who;
	struct unwind_state *walk;
	struct stack_table *table;

	if (!fault_wanted(&who))
		return 0;
	table = stack_table();
	if (!table || !stack_table_enter(table))
		return 0;
	walk = unwind_walk();
	if (walk && IS_USER_MODE(regs))
		TAKE_REGISTERS(walk, regs);
	else
		walk = 0;
	fault_count(ctx, table, walk, &who);
	stack_table_leave();
	return 0;
}

/*
 * Faults on a process's pages while the kernel works for it. Accesses that tolerate a missing page, as of BPF
 * programs and futexes, do not fault: the kernel fails them at once and counts no fault.
 */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct stack_subject who;
	struct stack_table *table;

	if ((s64)address < 0) /* the kernel's own memory */
		return 0;
	/* 1 of it is of the read itself (mm/maccess.c, copy_from_kernel_nofault). */
	if (BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), pagefault_disabled) > 1)
		return 0;
	if (!fault_wanted(&who))
		return 0;
	table = stack_table();
	if (!table || !stack_table_enter(table))
		return 0;
	fault_count(ctx, table, saved_registers(), &who);
	stack_table_leave();
	return 0;
}

SEC("perf_event")
int page_fault_event(struct bpf_perf_event_data *ctx)
{
	struct stack_subject who;
	struct stack_table *table;

	if (!fault_wanted(&who))
		return 0;
	table = stack_table();
	if (!table || !stack_table_enter(table))
		return 0;
	fault_count(ctx, table, user_registers(ctx), &who);
	stack_table_leave();
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
