// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * On-CPU samples, counted where they are taken. A perf event on every CPU runs
 * sample(); equal (process, thread, stack) are one entry with a count in a table
 * that belongs to that CPU alone, so nothing is locked and nothing is copied:
 * the kernel writes the stack straight to where it stays.
 *
 * Each CPU has two tables. User space turns `generation` and waits until no
 * program can hold the old one (an update of a map of maps waits for an RCU grace
 * period, kernel/bpf/syscall.c, maybe_wait_bpf_programs); then it reads the old
 * table through mmap, without a system call per entry, and clears it.
 *
 * Hooks: perf_event (cpu-clock or cycles). Kernels: 5.10 and newer.
 */
#include "include/process.h"
#include "include/user_stack.h"

#define MAX_FRAMES 127       /* PERF_MAX_STACK_DEPTH, of each of the two stacks */
#define FRAME_BYTES (MAX_FRAMES * sizeof(u64))
#define COMMON_BYTES (48 * sizeof(u64)) /* most kernel stacks fit into this */
#define SLOTS 1024           /* a power of two */
#define PROBES 8             /* slots looked at before an entry stays unmerged */

/* One entry of a table: equal samples of one thread. */
struct oncpu_entry {
	u64 hash;           /* over process, thread and frames; tells entries apart */
	u64 start_boottime; /* ns, of the process's group leader */
	u32 pid;            /* thread group id */
	u32 tid;
	u32 count;          /* samples */
	u32 exec_id;        /* task_struct.self_exec_id */
	s16 user_frames;    /* or a negative errno of bpf_get_stack */
	s16 kernel_frames;  /* likewise */
	u32 user_end;       /* enum unwind_end of the user stack */
	u64 caller;         /* possible_caller() of the leaf, or 0; in no frame */
	char comm[TASK_COMM_LEN];
	u64 frames[];       /* leaf first: user frames, then kernel frames */
};

#define ENTRY_BYTES_MAX (sizeof(struct oncpu_entry) + 2 * FRAME_BYTES)

/*
 * A CPU's table. User space sizes the map's value: arena_bytes of entries follow
 * this head.
 */
struct oncpu_table {
	u32 used;         /* bytes of the arena that are taken */
	u32 entries;
	u64 samples;      /* counted in this table, lost ones included */
	u64 lost_full;    /* no room in the arena */
	u64 unmerged;     /* no free slot near: entries that may have a twin */
	u64 faults;       /* stacks of which the kernel could read nothing */
	u64 unreadable;   /* user stacks that end at a frame that could not be read */
	u64 first_ns;     /* CLOCK_MONOTONIC of the first sample */
	u32 slots[SLOTS]; /* offset into the arena plus 1, or 0 */
	u8 arena[];
};

volatile const u32 arena_bytes = 64 * 1024;
volatile const u32 stack_frames = MAX_FRAMES; /* of each of the two stacks */
volatile const u32 stack_bytes = FRAME_BYTES; /* the same in bytes */
volatile const bool kernel_stacks = true;
volatile const bool user_stacks = true;

/* Which of the two tables of each CPU is written; 0 or 1. */
volatile u32 generation;

/* Samples on a CPU that has no tables yet. */
volatile u64 lost_no_table;

/* Index: 2 * CPU + generation. Sized by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, BPF_F_MMAPABLE);
		__uint(max_entries, 1);
		__uint(key_size, sizeof(u32));
		__uint(value_size, sizeof(struct oncpu_table)); /* and the arena: see the loader */
	});
} oncpu_tables SEC(".maps");

/* Keep these types in the BTF, from which the Go types are made. */
const struct oncpu_entry *unused_oncpu_entry __attribute__((unused));
const struct oncpu_table *unused_oncpu_table __attribute__((unused));
const struct unwind_page *unused_unwind_page __attribute__((unused));
const struct unwind_space *unused_unwind_space __attribute__((unused));
const enum unwind_end *unused_unwind_end __attribute__((unused));
const enum unwind_cfa *unused_unwind_cfa __attribute__((unused));
const enum unwind_save *unused_unwind_save __attribute__((unused));

static __always_inline struct oncpu_table *active_table(void)
{
	u32 index = 2 * bpf_get_smp_processor_id() + (generation & 1), zero = 0;
	void *table = bpf_map_lookup_elem(&oncpu_tables, &index);

	return table ? bpf_map_lookup_elem(table, &zero) : 0;
}

static __always_inline u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 32);
}

/*
 * Has the kernel write a stack to `to` and returns the number of its bytes;
 * *frames becomes the number of frames or a negative errno. The helper clears what
 * it does not fill, so it is first asked for what most stacks fit into.
 */
static __always_inline u32 take_stack(void *ctx, void *to, u64 flags, s16 *frames)
{
	long bytes = bpf_get_stack(ctx, to, COMMON_BYTES, flags);

	if (bytes == COMMON_BYTES)
		bytes = bpf_get_stack(ctx, to, stack_bytes, flags);
	if (bytes < 0) {
		*frames = bytes;
		return 0;
	}
	*frames = bytes / sizeof(u64);
	return bytes;
}

/*
 * Takes the user stack; where its registers cannot be had, as the kernel does it.
 * space is where the process's tables are, or 0.
 */
static __always_inline u32 take_user_stack(struct bpf_perf_event_data *ctx, struct oncpu_table *table,
					   struct oncpu_entry *entry, u32 space)
{
	struct unwind_state *walk = user_registers(ctx);
	u64 sp, lr;
	s16 frames;

	if (!walk)
		return take_stack(ctx, entry->frames, BPF_F_USER_STACK, &entry->user_frames);
	walk->mapping.length = 0;
	walk->space = space;
	walk->exact = 1;
	walk->leaf = 1;
	walk->changes = 0;
	walk->leaf_by_fp = 0;
	walk->end = UNWIND_END_ROOT;
	sp = walk->sp;
	lr = walk->lr;
	walk_user_stack(walk, entry->frames, &entry->user_frames, stack_frames);
	if (walk->leaf_by_fp)
		entry->caller = possible_caller(sp, lr);
	entry->user_end = walk->end;
	if (walk->end == UNWIND_END_UNREADABLE)
		table->unreadable += 1;
	frames = entry->user_frames;
	if (frames < 0 || frames > MAX_FRAMES)
		return 0; /* cannot be: tells the verifier so */
	return frames * sizeof(u64);
}

static __always_inline u64 hash_entry(struct oncpu_entry *entry, u32 bytes)
{
	u64 hash = mix(mix(entry->start_boottime, ((u64)entry->pid << 32) | entry->tid), entry->caller);
	u32 frames = bytes / sizeof(u64);
	u32 i;

	for (i = 0; i < 2 * MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		hash = mix(hash, entry->frames[i]);
	}
	return mix(hash, ((u64)entry->exec_id << 16) | (u16)entry->user_frames);
}

static __always_inline bool same_entry(const struct oncpu_entry *a, const struct oncpu_entry *b)
{
	return a->hash == b->hash && a->tid == b->tid && a->pid == b->pid &&
	       a->exec_id == b->exec_id && a->user_frames == b->user_frames && a->kernel_frames == b->kernel_frames;
}

/*
 * Finds the entry's twin among those kept before and counts there; true then.
 * Else a free slot, if one is near, will lead to the entry at `offset`.
 */
static __always_inline bool merge(struct oncpu_table *table, struct oncpu_entry *entry, u32 offset)
{
	u32 start = entry->hash >> 32;
	int i;

	for (i = 0; i < PROBES; i++) {
		u32 slot = (start + i) & (SLOTS - 1);
		u32 at = table->slots[slot];
		struct oncpu_entry *other;

		if (!at) {
			table->slots[slot] = offset + 1;
			return false;
		}
		at -= 1;
		if (at > arena_bytes - ENTRY_BYTES_MAX)
			return false; /* cannot be: tells the verifier so */
		other = (void *)table->arena + at;
		if (same_entry(other, entry)) {
			other->count += 1;
			return true;
		}
	}
	table->unmerged += 1;
	return false;
}

/* Who is sampled. */
struct subject {
	u64 start_boottime;
	u32 pid, tid;
	u32 exec_id;
	u32 space; /* its unwind tables, or 0 */
};

static __always_inline void count_sample(struct bpf_perf_event_data *ctx, struct oncpu_table *table, const struct subject *who)
{
	u32 offset = table->used, bytes = 0;
	struct oncpu_entry *entry;

	if (!table->samples)
		table->first_ns = bpf_ktime_get_ns();
	table->samples += 1;
	if (offset > arena_bytes - ENTRY_BYTES_MAX) {
		table->lost_full += 1;
		return;
	}
	entry = (void *)table->arena + offset;
	entry->start_boottime = who->start_boottime;
	entry->pid = who->pid;
	entry->tid = who->tid;
	entry->exec_id = who->exec_id;
	entry->user_end = 0;
	entry->caller = 0;
	entry->count = 1;
	entry->user_frames = 0;
	entry->kernel_frames = 0;
	if (user_stacks)
		bytes = take_user_stack(ctx, table, entry, who->space);
	if (kernel_stacks)
		bytes += take_stack(ctx, (void *)entry->frames + bytes, 0, &entry->kernel_frames);
	if (entry->user_frames < 0 || entry->kernel_frames < 0)
		table->faults += 1;
	entry->hash = hash_entry(entry, bytes);
	if (merge(table, entry, offset))
		return;
	bpf_get_current_comm(entry->comm, sizeof(entry->comm));
	table->entries += 1;
	table->used = offset + sizeof(*entry) + bytes;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct subject who = { .pid = pid_tgid >> 32, .tid = pid_tgid };
	struct scope_entry *known = bpf_map_lookup_elem(&scope, &who.pid);
	struct oncpu_table *table;
	struct task_struct *task;

	if (scope_excludes(known, SCOPE_ON_CPU))
		return 0;
	task = (struct task_struct *)bpf_get_current_task();
	who.start_boottime = process_start(task);
	who.exec_id = process_exec_id(task);
	if (known)
		who.space = known->space;
	else
		scope_ask(who.pid, who.start_boottime, who.exec_id);
	table = active_table();
	if (!table) {
		__sync_fetch_and_add(&lost_no_table, 1);
		return 0;
	}
	count_sample(ctx, table, &who);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
