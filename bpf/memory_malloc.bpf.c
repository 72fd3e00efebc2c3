// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Sampled allocations of processes in scope, by stack, and which of them have not been freed. allocation.h
 * defines which calls are sampled; all others only pay for the breakpoint and a few look-ups.
 *
 * Each program is for functions with the same parameters; user space knows which function is which.
 * allocation_call.h records calls, allocation_live.h memory in use.
 *
 * Hooks: uprobes, in processes in scope only. Kernels: 5.10 and later.
 */
#include "include/allocation_call.h"
#include "include/allocation_live.h"
#include "include/own_stack.h"

OBSERVES(SCOPE_MEMORY);

#include <bpf/bpf_tracing.h>

/* Runs at the entry of an allocating function. A call that is not sampled leaves early. */
static __always_inline int allocation(struct bpf_user_pt_regs *ctx, const struct request *asked)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct stack_subject who = { .pid = pid_tgid >> 32, .tid = pid_tgid };
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &who.pid);
	struct call call = { .to = asked->to, .old_address = asked->old_address, .size = asked->size };
	struct outer before = {}, now = {};
	bool sampled, replaced = false, nests;
	u64 threshold;

	if (scope_excludes(known, scope_bit) || asked->size >= ALLOCATION_TOO_LARGE)
		return SKIP_RETURN;
	allocation_counted(ALLOCATION_CALLS);
	threshold = allocation_threshold(asked->size, sample_bytes);
	sampled = bpf_get_prandom_u32() < threshold;
	if (track_live && asked->old_address)
		replaced = forget(asked->old_address, who.pid, &call.old);
	if (!sampled && !replaced && !asked->outer)
		return SKIP_RETURN;
	nests = enter(ctx, pid_tgid, asked->outer, &before, &now);
	if (sampled) {
		subject_discover(&who, known);
		call.made.start_boottime = who.start_boottime;
		call.made.exec_id = who.exec_id;
		call.made.size = asked->size;
		call.made.weight = allocation_weight(threshold);
		call.made.hash = take_call(ctx, &who, asked->size, call.made.weight, nests ? &before : 0, &now);
	}
	return await_return(ctx, asked, &call);
}

/* Returns count * size; if that overflows, more than can be allocated. */
static __always_inline u64 product(u64 count, u64 size)
{
	if (count && size > ALLOCATION_TOO_LARGE / count)
		return ALLOCATION_TOO_LARGE;
	return count * size;
}

/* In a session the program also runs at the return. */
static __always_inline bool is_return(struct bpf_user_pt_regs *ctx)
{
	return session && bpf_get_func_ip(ctx) != FUNCTION(ctx);
}

#define ENTRY(name)                                   \
	SEC("uprobe")                                 \
	int name(struct bpf_user_pt_regs *ctx)        \
	{                                             \
		struct request asked = {};            \
						      \
		on_own_stack(ctx);                    \
		if (is_return(ctx))                   \
			return allocated(ctx);

#define END                                           \
		return allocation(ctx, &asked);       \
	}

/* malloc(size), valloc(size), mallocx(size, …) */
ENTRY(allocate_first)
	asked.size = ARGUMENT_1(ctx);
END

/* pvalloc(size), operator new(size, nothrow): built on others in some libraries. */
ENTRY(allocate_first_outer)
	asked.size = ARGUMENT_1(ctx);
	asked.outer = true;
END

/* operator new(size) */
ENTRY(allocate_first_throws)
	asked.size = ARGUMENT_1(ctx);
	asked.outer = true;
	asked.throws = true;
END

/* calloc(count, size) */
ENTRY(allocate_product)
	asked.size = product(ARGUMENT_1(ctx), ARGUMENT_2(ctx));
	asked.outer = true;
END

/* memalign(alignment, size), aligned_alloc(alignment, size) */
ENTRY(allocate_second)
	asked.size = ARGUMENT_2(ctx);
	asked.outer = true;
END

/* posix_memalign(to, alignment, size) */
ENTRY(allocate_third)
	asked.size = ARGUMENT_3(ctx);
	asked.to = ARGUMENT_1(ctx);
	asked.outer = true;
END

/* realloc(old, size), rallocx(old, size, …) */
ENTRY(reallocate_second)
	asked.old_address = ARGUMENT_1(ctx);
	asked.size = ARGUMENT_2(ctx);
	asked.outer = true;
END

/* reallocarray(old, count, size) */
ENTRY(reallocate_product)
	asked.old_address = ARGUMENT_1(ctx);
	asked.size = product(ARGUMENT_2(ctx), ARGUMENT_3(ctx));
	asked.outer = true;
END

/*
 * runtime.mallocgc(size, type, zero): Go's garbage collector frees. Never in a session: no return may be
 * probed.
 */
SEC("uprobe")
int allocate_go(struct bpf_user_pt_regs *ctx)
{
	struct request asked = { .size = GO_ARGUMENT_1(ctx), .outer = true, .untracked = true };

	on_own_stack(ctx);
	allocation(ctx, &asked);
	return 0;
}

/* free(address), operator delete(address, …) */
SEC("uprobe")
int release(struct bpf_user_pt_regs *ctx)
{
	struct live_key key = { .address = ARGUMENT_1(ctx), .pid = bpf_get_current_pid_tgid() >> 32 };

	on_own_stack(ctx);
	if (!key.address || scope_excludes(bpf_map_lookup_elem(&scope, &key.pid), scope_bit))
		return SKIP_RETURN;
	allocation_counted(ALLOCATION_RELEASES);
	bpf_map_delete_elem(&live, &key);
	return SKIP_RETURN;
}

/* The return of an allocating function, on kernels without sessions. */
SEC("uretprobe")
int returned(struct bpf_user_pt_regs *ctx)
{
	on_own_stack(ctx);
	return allocated(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
