/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls of allocating functions: which of them are sampled, with what stack, and which are part of another
 * one.
 *
 * calloc may be built on malloc, realloc(NULL) on malloc, memalign on malloc, and by a jump as well as by a
 * call. Every function that may be the outer one records its return address. A sampled call is an inner one,
 * and dropped, if it returns to the same address at the same depth (it was jumped to), or if that address is
 * among its next callers (it was called): the address can only be on the stack again if its call is in
 * progress. If the outer one's return is probed, the kernel has replaced the address, and has the original in
 * the task's list of uprobe returns.
 */
#ifndef EBPFRECEIVER_ALLOCATION_CALL_H
#define EBPFRECEIVER_ALLOCATION_CALL_H

#include "subject.h"
#include "allocation.h"
#include "allocation_counts.h"
#include "allocation_request.h"

/* The mean distance between two sampled bytes; below 2^31. */
volatile u64 sample_bytes = 512 * 1024;

/* Callers that are searched for the return address of an outer call. */
#define NESTING_MAX 5

/* The return address of the last call that may be an outer one. */
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

/* Returns the return address of the function that was just entered; 0 if it cannot be read. */
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

/* Reports whether the return of the outer call is probed and pending. */
static __always_inline bool is_awaited(const struct outer *outer)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct return_instance *next = BPF_CORE_READ(task, utask, return_instances);

	return next && BPF_CORE_READ(next, stack) == outer->sp && BPF_CORE_READ(next, func) == outer->ip;
}

/* Reports whether another function has jumped to this one, by what is recorded of that one. */
static __always_inline bool is_jumped_to(const struct outer *outer, const struct outer *now)
{
	return outer->returns_to == now->returns_to && outer->sp == now->sp && outer->ip != now->ip;
}

/* Reports whether a call is part of the outer call. frames are its callers. */
static __always_inline bool is_nested(const struct outer *outer, const struct outer *now, const u64 *frames, s16 count)
{
	int i;

	if (outer->sp < now->sp)
		return false;
	if (is_jumped_to(outer, now) || is_awaited(outer))
		return true;
	if (outer->sp == now->sp)
		return false; /* from the same address again */
	for (i = 1; i <= NESTING_MAX; i++) {
		if (i == 1 && outer->returns_to == now->returns_to)
			continue; /* from the same address again, and deeper: there this call itself returns to */
		if (i < count && frames[i] == outer->returns_to)
			return true;
	}
	return false;
}

/*
 * Records the return address of a call if it may be an outer one. now is this call, before the thread's
 * previous one that may be. Reports whether there was one.
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
	/* A function that the outer call has jumped to does not replace it. */
	if (may_be_outer && !is_jumped_to(before, now))
		bpf_map_update_elem(&outers, &pid_tgid, now, BPF_ANY);
	return last;
}

/* Takes the stack of a sampled call; returns its hash, 0 if it was lost or part of another call. */
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
	bytes = stack_take(ctx, walk, entry, who->space, 0);
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
