/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sampled allocations that have not been freed. The address is known when the call returns: in a session
 * (Linux 6.13) only the returns of sampled calls are probed. Otherwise the program `returned` runs at every
 * return.
 */
#ifndef EBPFRECEIVER_ALLOCATION_LIVE_H
#define EBPFRECEIVER_ALLOCATION_LIVE_H

#include "allocation_counts.h"
#include "allocation_request.h"

/* Whether frees are matched. */
volatile const bool track_live = true;
/* Whether the entry programs are attached as sessions. */
volatile const bool session = false;

/* Return values of a session's program at the entry of a function: whether it runs at the return, too. */
#define RUN_AT_RETURN 0
#define SKIP_RETURN (session ? 1 : 0)

/*
 * Maximum size of operator new whose return is probed. A probed call cannot throw, as the C++ runtime does
 * not find its caller. For so little it only would if memory is exhausted, when the program ends anyway.
 */
#define THROWING_MAX (1ULL << 20)

/* An address of a process. */
struct live_key {
	u64 address;
	u32 pid; /* thread group id */
	u32 unused;
};

/* A sampled allocation that has not been freed. */
struct live_allocation {
	u64 hash;           /* struct stack_entry.hash of its stack */
	u64 start_boottime; /* of the process */
	u64 size;           /* requested bytes */
	u64 weight;         /* allocation_weight() */
	u32 exec_id;        /* identifies the program that the process ran */
	u32 unused;
};

/* A call in progress: of one thread, at one depth. */
struct call_key {
	u64 pid_tgid;
	u64 sp; /* at the entry */
};

/* What to do at its return. */
struct call {
	struct live_allocation made; /* hash 0: not sampled */
	struct live_allocation old;  /* argument of realloc; hash 0: it is not tracked */
	u64 old_address;
	u64 to; /* address at which the result is stored; 0: it is returned */
	u64 size;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct live_key);
	__type(value, struct live_allocation);
} live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH); /* a thread may exit in a call */
	__uint(max_entries, 4096);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

/* Keeps these types in BTF, from which bpf2go generates the Go types. */
const struct live_key *unused_live_key __attribute__((unused));
const struct live_allocation *unused_live_allocation __attribute__((unused));

/* Keeps an allocation as live. */
static __always_inline void remember(u64 address, u32 pid, const struct live_allocation *made)
{
	struct live_key key = { .address = address, .pid = pid };

	if (bpf_map_update_elem(&live, &key, made, BPF_ANY))
		allocation_counted(ALLOCATION_LIVE_FULL);
}

/* Removes an allocation; reports whether it was tracked, and returns it. */
static __always_inline bool forget(u64 address, u32 pid, struct live_allocation *was)
{
	struct live_key key = { .address = address, .pid = pid };
	struct live_allocation *known = bpf_map_lookup_elem(&live, &key);

	if (!known)
		return false;
	*was = *known;
	bpf_map_delete_elem(&live, &key);
	return true;
}

/* Requests a probe of the return of a call, if something is to be done then. */
static __always_inline int await_return(struct bpf_user_pt_regs *ctx, const struct request *asked, const struct call *call)
{
	struct call_key at = { .pid_tgid = bpf_get_current_pid_tgid(), .sp = ctx->sp };

	if (!track_live || asked->untracked || (!call->made.hash && !call->old.hash))
		return SKIP_RETURN;
	if (asked->throws && asked->size > THROWING_MAX) {
		allocation_counted(ALLOCATION_UNTRACKED);
		return SKIP_RETURN;
	}
	bpf_map_update_elem(&calls, &at, call, BPF_ANY);
	return RUN_AT_RETURN;
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
	/* realloc has failed and left its argument in place; but realloc(p, 0) frees. */
	if (!address && call.old.hash && call.size)
		remember(call.old_address, pid, &call.old);
	return 0;
}

#endif
