/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Tables in which the programs of an object aggregate by process, thread and stack. Each CPU has its own, so
 * that nothing is locked and nothing is copied: the stack is written directly to its entry.
 *
 * Each CPU has two tables. User space switches `generation` and waits until no program can use the old table
 * (an update of a map of maps waits for an RCU grace period, kernel/bpf/syscall.c, maybe_wait_bpf_programs);
 * then it reads the old table through mmap, without a system call per entry, and clears it.
 *
 * A table has one writer at a time, and so has a CPU's walk, which both of its tables share. If an object's
 * programs may interrupt each other on one CPU (uprobes are preempted since Linux 6.0, and run within other
 * hooks), each brackets its work by stack_table_enter() and stack_table_leave(). Programs of perf events, and
 * hooks that run with preemption off and of which no interrupt writes the same tables, need neither.
 */
#ifndef EBPFRECEIVER_STACK_TABLE_H
#define EBPFRECEIVER_STACK_TABLE_H

#include "user_stack.h"

/* 0 in an object that only counts, which does not use stack_entry.values. */
#ifndef STACK_SUMS
#define STACK_SUMS 1
#endif

#define HELPER_FRAMES 127    /* PERF_MAX_STACK_DEPTH: of a stack that bpf_get_stack writes */
#define HELPER_BYTES (HELPER_FRAMES * sizeof(u64)) /* 0x3f8, also a mask */
#define USER_FRAMES_MAX 1024 /* of one that is walked here */
#define COMMON_BYTES (48 * sizeof(u64)) /* most kernel stacks fit into this */
#define SLOTS 1024           /* a power of two */
#define PROBES 8             /* slots that are probed before an entry stays unmerged */

/* One entry of a table: equal observations of one thread. */
struct stack_entry {
	u64 hash;           /* over all members that distinguish entries */
	u64 start_boottime; /* ns, of the process's group leader */
	u64 values[2];      /* sums; each object defines of what */
	u32 pid;            /* thread group id */
	u32 tid;
	u32 count;          /* observations */
	u32 exec_id;        /* task_struct.self_exec_id */
	u32 tag;            /* also distinguishes entries, below 65536; each object defines its meaning */
	u32 user_end;       /* enum unwind_end of the user stack */
	s16 user_frames;    /* or a negative errno of bpf_get_stack */
	s16 kernel_frames;  /* likewise */
	u32 unused;
	u64 caller;         /* possible_caller() of the leaf, or 0; it is no frame */
	char comm[TASK_COMM_LEN];
	u64 frames[];       /* leaf first: user frames, then kernel frames */
};

/*
 * A CPU's table. User space sizes the map's value: arena_bytes of entries follow
 * this head.
 */
struct stack_table {
	u32 used;         /* used bytes of the arena */
	u32 entries;
	u64 seen;         /* observations counted in this table, lost ones included */
	u64 lost_full;    /* the arena was full */
	u64 lost_busy;    /* another program was writing the table */
	u64 unmerged;     /* no free slot was found: entries that may be duplicates */
	u64 first_ns;     /* CLOCK_MONOTONIC of the first observation */
	u16 slots[SLOTS]; /* offset in the arena in words plus 1, or 0; close to the head, to be on the same page */
	u8 arena[];
};

volatile const u32 arena_bytes = 64 * 1024;
volatile const u32 user_frames = HELPER_FRAMES;
volatile const u32 helper_bytes = HELPER_BYTES; /* of each stack that bpf_get_stack writes */
volatile const u32 entry_bytes = sizeof(struct stack_entry) + 2 * HELPER_BYTES; /* of the largest entry */
volatile const bool kernel_stacks = true;
volatile const bool user_stacks = true;

/* Which of the two tables of each CPU is written; 0 or 1. */
volatile u32 generation;

/* Observations on a CPU that has no tables yet. */
volatile u64 lost_no_table;

/* Index: 2 * CPU + generation. The loader sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, BPF_F_MMAPABLE);
		__uint(max_entries, 1);
		__uint(key_size, sizeof(u32));
		__uint(value_size, sizeof(struct stack_table)); /* and the arena, as set by the loader */
	});
} stack_tables SEC(".maps");

/* Keeps these types in BTF, from which bpf2go generates the Go types. */
const struct stack_entry *unused_stack_entry __attribute__((unused));
const struct stack_table *unused_stack_table __attribute__((unused));

/* The observed thread. */
struct stack_subject {
	u64 start_boottime;
	u32 pid, tid;
	u32 exec_id;
	u32 space; /* its unwind tables, or 0 */
};

/* Returns this CPU's table; 0: there is none, which is counted. */
static __always_inline struct stack_table *stack_table(void)
{
	u32 index = 2 * bpf_get_smp_processor_id() + (generation & 1), zero = 0;
	void *inner = bpf_map_lookup_elem(&stack_tables, &index);
	struct stack_table *table = inner ? bpf_map_lookup_elem(inner, &zero) : 0;

	if (!table)
		__sync_fetch_and_add(&lost_no_table, 1);
	return table;
}

/*
 * Reports whether this program is the only one of its object on this CPU that takes a stack; otherwise the
 * observation is counted as lost.
 */
static __always_inline bool stack_table_enter(struct stack_table *table)
{
	if (unwind_enter())
		return true;
	__sync_fetch_and_add(&table->lost_busy, 1);
	return false;
}

static __always_inline void stack_table_leave(void) { unwind_leave(); }

static __always_inline u64 stack_mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 32);
}

/*
 * Has the kernel write a stack to `to` and returns the number of bytes; *frames becomes the number of frames
 * or a negative errno. The helper clears what it does not fill, so that it is first called with a size that
 * most stacks fit into.
 */
static __always_inline u32 take_stack(void *ctx, void *to, u64 flags, s16 *frames)
{
	u32 first = helper_bytes < COMMON_BYTES ? helper_bytes : COMMON_BYTES;
	long bytes = bpf_get_stack(ctx, to, first, flags);

	if (bytes == COMMON_BYTES && first < helper_bytes)
		bytes = bpf_get_stack(ctx, to, helper_bytes, flags);
	if (bytes < 0) {
		*frames = bytes;
		return 0;
	}
	*frames = bytes / sizeof(u64);
	return bytes & HELPER_BYTES; /* all bits: the verifier learns nothing */
}

/*
 * Takes the user stack from the registers in walk, or with the kernel's helper if walk is 0. Returns the
 * number of bytes.
 */
static __always_inline u32 take_user_stack(void *ctx, struct unwind_state *walk, struct stack_entry *entry, u32 space)
{
	u32 bytes;
	u64 sp, lr;
	s16 frames;

	if (!walk) {
		bytes = take_stack(ctx, entry->frames, BPF_F_USER_STACK, &entry->user_frames);
		if (bytes == helper_bytes)
			entry->user_end = UNWIND_END_CUT;
		else if (bytes) /* 32-bit code: it was walked by frame pointers, and it is unknown whether to the first frame */
			entry->user_end = UNWIND_END_NO_TABLE;
		return bytes;
	}
	unwind_begin(walk, space);
	walk_around_probes(walk);
	sp = walk->sp;
	lr = walk->lr;
	walk_user_stack(walk, entry->frames, &entry->user_frames, user_frames);
	if (walk->leaf_by_fp)
		entry->caller = possible_caller(sp, lr);
	entry->user_end = walk->end;
	frames = entry->user_frames;
	if (frames < 0 || frames > (s16)user_frames)
		return 0; /* never happens; bounds the size for the verifier */
	return frames * sizeof(u64);
}

static __always_inline u64 stack_hash(struct stack_entry *entry, u32 bytes)
{
	u64 hash = stack_mix(stack_mix(entry->start_boottime, ((u64)entry->pid << 32) | entry->tid), entry->caller);
	u32 most = (entry_bytes - sizeof(*entry)) / sizeof(u64);
	u32 frames = bytes / sizeof(u64);
	u32 i;

	for (i = 0; i < most; i++) {
		if (i >= frames)
			break;
		hash = stack_mix(hash, entry->frames[i]);
	}
	return stack_mix(hash, ((u64)entry->exec_id << 32) | (entry->tag << 16) | (u16)entry->user_frames);
}

static __always_inline bool stack_same(const struct stack_entry *a, const struct stack_entry *b)
{
	return a->hash == b->hash && a->tid == b->tid && a->pid == b->pid && a->tag == b->tag &&
	       a->exec_id == b->exec_id && a->user_frames == b->user_frames && a->kernel_frames == b->kernel_frames;
}

/*
 * Finds an equal entry and adds to it; true then. Otherwise a free slot nearby, if any, will refer to the
 * entry at `offset`.
 */
static __always_inline bool stack_merge(struct stack_table *table, struct stack_entry *entry, u32 offset)
{
	u32 start = entry->hash >> 32;
	int i;

	for (i = 0; i < PROBES; i++) {
		u32 slot = (start + i) & (SLOTS - 1);
		u32 at = table->slots[slot];
		struct stack_entry *other;

		if (!at) {
			table->slots[slot] = offset / sizeof(u64) + 1;
			return false;
		}
		at = (at - 1) * sizeof(u64);
		if (at > arena_bytes - entry_bytes)
			return false; /* never happens; bounds the offset for the verifier */
		other = (void *)table->arena + at;
		if (stack_same(other, entry)) {
			other->count += entry->count;
			if (STACK_SUMS) {
				other->values[0] += entry->values[0];
				other->values[1] += entry->values[1];
			}
			return true;
		}
	}
	table->unmerged += 1;
	return false;
}

/*
 * Begins an entry for `count` observations, without a stack; 0 if the table is full. The observations are
 * counted in any case.
 */
static __always_inline struct stack_entry *stack_begin(struct stack_table *table, const struct stack_subject *who, u32 count)
{
	u32 offset = table->used;
	struct stack_entry *entry;

	if (!table->seen)
		table->first_ns = bpf_ktime_get_ns();
	table->seen += count;
	if (offset > arena_bytes - entry_bytes) {
		table->lost_full += count;
		return 0;
	}
	entry = (void *)table->arena + offset;
	entry->start_boottime = who->start_boottime;
	entry->pid = who->pid;
	entry->tid = who->tid;
	entry->exec_id = who->exec_id;
	entry->count = count;
	if (STACK_SUMS) {
		entry->values[0] = 0;
		entry->values[1] = 0;
	}
	entry->tag = 0;
	entry->user_end = 0;
	entry->caller = 0;
	entry->user_frames = 0;
	entry->kernel_frames = 0;
	return entry;
}

/*
 * Takes the requested stacks of the running thread and returns the number of bytes. walk is where to begin in
 * user space, see take_user_stack(); kernel_flags are those of bpf_get_stack for the kernel's part.
 */
static __always_inline u32 stack_take(void *ctx, struct unwind_state *walk, struct stack_entry *entry, u32 space,
				      u64 kernel_flags)
{
	u32 bytes = 0;

	if (user_stacks)
		bytes = take_user_stack(ctx, walk, entry, space);
	if (kernel_stacks)
		bytes += take_stack(ctx, (void *)entry->frames + bytes, kernel_flags, &entry->kernel_frames);
	return bytes;
}

/*
 * Adds the entry, with `bytes` of frames, to an equal one, or keeps it: true then, and its comm is still to
 * be written.
 */
static __always_inline bool stack_keep(struct stack_table *table, struct stack_entry *entry, u32 bytes)
{
	u32 offset = table->used;

	entry->hash = stack_hash(entry, bytes);
	if (stack_merge(table, entry, offset))
		return false;
	table->entries += 1;
	table->used = offset + sizeof(*entry) + bytes;
	return true;
}

/* Adds the entry to an equal one, or keeps it. It has `bytes` of frames; comm is that of the running thread. */
static __always_inline void stack_end(struct stack_table *table, struct stack_entry *entry, u32 bytes)
{
	if (stack_keep(table, entry, bytes))
		bpf_get_current_comm(entry->comm, sizeof(entry->comm));
}

#endif
