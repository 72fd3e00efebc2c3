// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Sampled allocations of processes in scope, by stack, and which of them have not
 * been freed. allocation.h says which calls are sampled; all others only pay for
 * the breakpoint and a few look-ups.
 *
 * Each program is for functions whose arguments say in one way what is asked for;
 * user space knows which function that is. An allocation that is sampled is
 * looked at again when it returns, for its address: in a session (Linux 6.13) the
 * return of no other call is touched. Else `returned` runs at every return.
 *
 * Calls within calls. calloc may be built on malloc, realloc(NULL) on malloc,
 * memalign on malloc, and by a jump as well as by a call. Every function that may
 * be the outer one leaves behind where it returns to. A sampled call is an inner
 * one, and dropped, when it returns to the same place from the same depth (it was
 * jumped to), or when that place is among its next callers (it was called): the
 * place can only be on the stack again if its call is under way. Where the outer
 * one's return is looked at, the kernel has put another address there; it then
 * has it in the task's list of returns to come.
 *
 * Hooks: uprobes, in the processes that are observed alone. Kernels: 5.10 and newer.
 */
#include "include/process.h"
#include "include/stack_table.h"
#include "include/allocation.h"

#include <bpf/bpf_tracing.h>

/* The mean distance between two sampled bytes; below 2^31. */
volatile u64 sample_bytes = 512 * 1024;
/* Whether frees are matched. */
volatile const bool track_live = true;
/* Whether the entry programs are attached as sessions. */
volatile const bool session = false;

/* Callers that are searched for the place where an outer call returns to. */
#define NESTING_MAX 5
/*
 * What operator new may be asked for and still be looked at when it returns: while
 * it is, it cannot throw, for the C++ runtime does not find its caller. It has to
 * when memory is out, which for so little means the end anyway.
 */
#define THROWING_MAX (1ULL << 20)

/* Counters, index of allocation_counts. */
enum allocation_count {
	ALLOCATION_CALLS = 0,      /* calls of allocating functions in scope */
	ALLOCATION_RELEASES = 1,   /* calls of freeing functions in scope */
	ALLOCATION_NESTED = 2,     /* sampled calls that were part of another one */
	ALLOCATION_LIVE_FULL = 3,  /* sampled allocations that `live` had no room for */
	ALLOCATION_UNTRACKED = 4,  /* sampled allocations whose return may not be touched */
	ALLOCATION_COUNTS = 5,
};

/* An address of a process. */
struct live_key {
	u64 address;
	u32 pid; /* thread group id */
	u32 unused;
};

/* A sampled allocation that has not been freed. */
struct live_allocation {
	u64 hash;           /* struct stack_entry.hash of where it was made */
	u64 start_boottime; /* of the process */
	u64 size;           /* bytes that were asked for */
	u64 weight;         /* allocation_weight() */
	u32 exec_id;        /* which program the process ran */
	u32 unused;
};

/* A call that is under way: of one thread, at one depth. */
struct call_key {
	u64 pid_tgid;
	u64 sp; /* at the entry */
};

/* What its return is to do. */
struct call {
	struct live_allocation made; /* hash 0: not sampled */
	struct live_allocation old;  /* what realloc was given; hash 0: nothing that is tracked */
	u64 old_address;
	u64 to; /* where the address is stored; 0: it is returned */
	u64 size;
};

/* Where the last call returns to that may be an outer one. */
struct outer {
	u64 returns_to;
	u64 sp;
	u64 ip; /* the function */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct live_key);
	__type(value, struct live_allocation);
} live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH); /* a thread may die in a call */
	__uint(max_entries, 4096);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64); /* pid_tgid */
	__type(value, struct outer);
} outers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ALLOCATION_COUNTS);
	__type(key, u32);
	__type(value, u64);
} allocation_counts SEC(".maps");

/* Keep these types in the BTF, from which the Go types are made. */
const struct live_key *unused_live_key __attribute__((unused));
const struct live_allocation *unused_live_allocation __attribute__((unused));
const enum allocation_count *unused_allocation_count __attribute__((unused));

/* What a call asks for. */
struct request {
	u64 size;
	u64 old_address; /* what it may free, or 0 */
	u64 to;          /* where it stores the address, or 0 */
	bool outer;      /* may be built on another allocating function */
	bool throws;     /* may leave by an exception */
	bool untracked;  /* frees cannot be matched */
};

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(r) ((r)->di)
#define ARGUMENT_2(r) ((r)->si)
#define ARGUMENT_3(r) ((r)->dx)
#define GO_ARGUMENT_1(r) ((r)->ax)
#define RESULT(r) ((r)->ax)
#define FUNCTION(r) ((r)->ip)
/* A return has taken its address from the stack. */
#define SP_AT_ENTRY(r) ((r)->sp - 8)
#elif defined(__TARGET_ARCH_arm64)
#define ARGUMENT_1(r) ((r)->regs[0])
#define ARGUMENT_2(r) ((r)->regs[1])
#define ARGUMENT_3(r) ((r)->regs[2])
#define GO_ARGUMENT_1(r) ((r)->regs[0])
#define RESULT(r) ((r)->regs[0])
#define FUNCTION(r) ((r)->pc)
#define SP_AT_ENTRY(r) ((r)->sp)
#endif

/* What an entry program returns in a session: whether to look at the return. */
#define LOOK_AT_RETURN 0
#define NO_RETURN (session ? 1 : 0)

static __always_inline void allocation_counted(u32 what)
{
	u64 *count = bpf_map_lookup_elem(&allocation_counts, &what);

	if (count)
		__sync_fetch_and_add(count, 1);
}

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
	stack_table_leave(table);
	return hash;
}

/*
 * A call of an allocating function. Written so that what is not sampled leaves
 * early.
 */
static __always_inline int allocation(struct bpf_user_pt_regs *ctx, const struct request *asked)
{
	struct outer *outer = 0, before = {}, now = {};
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct stack_subject who = { .pid = pid_tgid >> 32, .tid = pid_tgid };
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &who.pid);
	struct live_key old = { .address = asked->old_address, .pid = who.pid };
	struct call_key at = { .pid_tgid = pid_tgid, .sp = ctx->sp };
	struct live_allocation *replaced = 0;
	struct task_struct *task;
	struct call call = {};
	u64 threshold;
	bool sampled;

	if (scope_excludes(known, SCOPE_MEMORY) || asked->size >= ALLOCATION_TOO_LARGE)
		return NO_RETURN;
	allocation_counted(ALLOCATION_CALLS);
	threshold = allocation_threshold(asked->size, sample_bytes);
	sampled = bpf_get_prandom_u32() < threshold;
	if (track_live && asked->old_address)
		replaced = bpf_map_lookup_elem(&live, &old);
	if (!sampled && !replaced && !asked->outer)
		return NO_RETURN;

	now.returns_to = returns_to(ctx);
	now.sp = ctx->sp;
	now.ip = FUNCTION(ctx);
	outer = bpf_map_lookup_elem(&outers, &pid_tgid);
	if (outer)
		before = *outer;
	/* What was jumped to from the outer call does not take its place. */
	if (asked->outer && !is_jumped_to(&before, &now))
		bpf_map_update_elem(&outers, &pid_tgid, &now, BPF_ANY);
	if (!sampled && !replaced)
		return NO_RETURN;

	if (replaced) {
		call.old = *replaced;
		call.old_address = asked->old_address;
		call.size = asked->size;
		bpf_map_delete_elem(&live, &old);
	}
	if (sampled) {
		task = (struct task_struct *)bpf_get_current_task();
		who.start_boottime = process_start(task);
		who.exec_id = process_exec_id(task);
		who.space = scope_met(known, who.pid, who.start_boottime, who.exec_id);
		call.made.start_boottime = who.start_boottime;
		call.made.exec_id = who.exec_id;
		call.made.size = asked->size;
		call.made.weight = allocation_weight(threshold);
		call.made.hash = take_call(ctx, &who, asked->size, call.made.weight, outer ? &before : 0, &now);
	}
	if (!track_live || asked->untracked || (!call.made.hash && !call.old.hash))
		return NO_RETURN;
	if (asked->throws && asked->size > THROWING_MAX) {
		allocation_counted(ALLOCATION_UNTRACKED);
		return NO_RETURN;
	}
	call.to = asked->to;
	bpf_map_update_elem(&calls, &at, &call, BPF_ANY);
	return LOOK_AT_RETURN;
}

/* Keeps an allocation as live. */
static __always_inline void remember(u64 address, u32 pid, const struct live_allocation *made)
{
	struct live_key key = { .address = address, .pid = pid };

	if (bpf_map_update_elem(&live, &key, made, BPF_ANY))
		allocation_counted(ALLOCATION_LIVE_FULL);
}

/* The return of an allocating function. */
static __always_inline int allocated(struct bpf_user_pt_regs *ctx)
{
	struct call_key at = { .pid_tgid = bpf_get_current_pid_tgid(), .sp = SP_AT_ENTRY(ctx) };
	struct call *found = bpf_map_lookup_elem(&calls, &at), call;
	u32 pid = at.pid_tgid >> 32;
	u64 address = RESULT(ctx);

	if (!found)
		return 0;
	call = *found;
	bpf_map_delete_elem(&calls, &at);
	if (call.to) {
		/* posix_memalign: 0 and the address in memory, or an error number. */
		if ((u32)address || bpf_probe_read_user(&address, sizeof(address), (void *)call.to))
			address = 0;
	}
	if (address && call.made.hash)
		remember(address, pid, &call.made);
	/* realloc has failed, what it was given is there still; but realloc(p, 0) frees. */
	if (!address && call.old.hash && call.size)
		remember(call.old_address, pid, &call.old);
	return 0;
}

/* count * size, or too much to be had where that overflows. */
static __always_inline u64 product(u64 count, u64 size)
{
	if (count && size > ALLOCATION_TOO_LARGE / count)
		return ALLOCATION_TOO_LARGE;
	return count * size;
}

/* In a session the program runs for the return, too. */
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

/* runtime.mallocgc(size, type, zero): Go frees by its collector. */
ENTRY(allocate_go)
	asked.size = GO_ARGUMENT_1(ctx);
	asked.outer = true;
	asked.untracked = true;
END

/* free(address), operator delete(address, …) */
SEC("uprobe")
int release(struct bpf_user_pt_regs *ctx)
{
	struct live_key key = { .address = ARGUMENT_1(ctx), .pid = bpf_get_current_pid_tgid() >> 32 };

	if (!key.address || scope_excludes(bpf_map_lookup_elem(&scope, &key.pid), SCOPE_MEMORY))
		return NO_RETURN;
	allocation_counted(ALLOCATION_RELEASES);
	bpf_map_delete_elem(&live, &key);
	return NO_RETURN;
}

/* The return of an allocating function, where the kernel has no sessions. */
SEC("uretprobe")
int returned(struct bpf_user_pt_regs *ctx)
{
	return allocated(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
