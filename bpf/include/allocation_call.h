/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls of allocating functions: which of them are sampled, by what stack, and
 * which are part of another one.
 *
 * calloc may be built on malloc, realloc(NULL) on malloc, memalign on malloc, and
 * by a jump as well as by a call. Every function that may be the outer one leaves
 * behind where it returns to. A sampled call is an inner one, and dropped, when it
 * returns to the same place from the same depth (it was jumped to), or when that
 * place is among its next callers (it was called): the place can only be on the
 * stack again if its call is under way. Where the outer one's return is looked at,
 * the kernel has put another address there; it then has it in the task's list of
 * returns to come.
 */
#ifndef EBPFRECEIVER_ALLOCATION_CALL_H
#define EBPFRECEIVER_ALLOCATION_CALL_H

#include "subject.h"
#include "allocation.h"
#include "allocation_counts.h"
#include "allocation_request.h"

/* The mean distance between two sampled bytes; below 2^31. */
volatile u64 sample_bytes = 512 * 1024;

/* Callers that are searched for the place where an outer call returns to. */
#define NESTING_MAX 5

/* Where the last call returns to that may be an outer one. */
struct outer {
	u64 returns_to;
	u64 sp;
	u64 ip; /* the function */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64); /* pid_tgid */
	__type(value, struct outer);
} outers SEC(".maps");

/* Where the function that was just entered returns to; 0 when that cannot be read. */
static __always_inline u64 returns_to(struct bpf_user_pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	u64 to = 0;

	bpf_probe_read_user(&to, sizeof(to), (void *)regs->sp);
	return to;
#elif defined(__TARGET_ARCH_arm64)
	return unwind_strip(regs->regs[30]);
#endif
}

/* Tells whether the return of the call that `outer` is of is looked at and yet to come. */
static __always_inline bool is_awaited(const struct outer *outer)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct return_instance *next = BPF_CORE_READ(task, utask, return_instances);

	return next && BPF_CORE_READ(next, stack) == outer->sp && BPF_CORE_READ(next, func) == outer->ip;
}

/* Tells a call that another function has left its place to, by what remains of that one. */
static __always_inline bool is_jumped_to(const struct outer *outer, const struct outer *now)
{
	return outer->returns_to == now->returns_to && outer->sp == now->sp && outer->ip != now->ip;
}

/* Tells a call that is part of the one that `outer` is of. frames are its callers. */
static __always_inline bool is_nested(const struct outer *outer, const struct outer *now, const u64 *frames, s16 count)
{
	int i;

	if (outer->sp < now->sp)
		return false;
	if (is_jumped_to(outer, now) || is_awaited(outer))
		return true;
	if (outer->sp == now->sp)
		return false; /* from the same place again */
	for (i = 1; i <= NESTING_MAX; i++) {
		if (i == 1 && outer->returns_to == now->returns_to)
			continue; /* from the same place again, and deeper: there this call itself returns to */
		if (i < count && frames[i] == outer->returns_to)
			return true;
	}
	return false;
}

/*
 * Notes where a call returns to, if it may be an outer one. now is this call, before
 * the last one of the thread that may have been; tells whether there was one.
 */
static __always_inline bool enter(struct bpf_user_pt_regs *ctx, u64 pid_tgid, bool may_be_outer, struct outer *before,
				  struct outer *now)
{
	struct outer *last = bpf_map_lookup_elem(&outers, &pid_tgid);

	now->returns_to = returns_to(ctx);
	now->sp = ctx->sp;
	now->ip = FUNCTION(ctx);
	if (last)
		*before = *last;
	/* What was jumped to from the outer call does not take its place. */
	if (may_be_outer && !is_jumped_to(before, now))
		bpf_map_update_elem(&outers, &pid_tgid, now, BPF_ANY);
	return last;
}

/* Takes the stack of a sampled call; returns its hash, 0 when it was lost or part of another call. */
static __always_inline u64 take_call(struct bpf_user_pt_regs *ctx, const struct stack_subject *who, u64 size, u64 weight,
				     const struct outer *outer, const struct outer *now)
{
	struct stack_table *table = stack_table();
	struct stack_entry *entry;
	struct unwind_state *walk;
	u64 hash = 0;
	u32 bytes;

	if (!table || !stack_table_enter(table))
		return 0;
	walk = unwind_walk();
	entry = stack_begin(table, who, 1);
	if (!entry || !walk)
		goto out;
	entry->values[0] = allocation_bytes(size, weight);
	entry->values[1] = weight;
	TAKE_REGISTERS(walk, ctx);
	bytes = stack_take(ctx, walk, table, entry, who->space, 0);
	if (outer && is_nested(outer, now, entry->frames, entry->user_frames)) {
		table->seen -= 1;
		allocation_counted(ALLOCATION_NESTED);
		goto out;
	}
	stack_end(table, entry, bytes);
	hash = entry->hash;
out:
	stack_table_leave();
	return hash;
}

#endif
