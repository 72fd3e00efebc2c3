/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the programs share about processes: who is in scope, and the events by
 * which user space learns of processes. The maps are created once, by
 * process.bpf.c's loader, and handed to every other object.
 */
#ifndef EBPFRECEIVER_PROCESS_H
#define EBPFRECEIVER_PROCESS_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * What user space has decided about a process: a bit for each kind of
 * observation that it is in scope of. SCOPE_ASKED alone means that user space was
 * told of the process and has not answered yet.
 */
enum scope_bit {
	SCOPE_ASKED = 0,
	SCOPE_ON_CPU = 1 << 0,
	SCOPE_OFF_CPU = 1 << 1,
	SCOPE_MEMORY = 1 << 2,
	SCOPE_NETWORK = 1 << 3,
	SCOPE_MONITORS = 1 << 4, /* policies look at the requests that it answers */
	SCOPE_TASK = 1 << 16, /* and the seven above it: observations that tasks have started */
	SCOPE_FORKED = 1 << 29, /* user space was not told of the process, but its parent had tables */
	SCOPE_DECIDED = 1 << 30,
};

/*
 * Which bit an object looks at. It says its kind's; the loader may name another, where
 * the kind is loaded a second time.
 */
#define OBSERVES(bit) volatile const u32 scope_bit = bit

/*
 * What user space has decided about a process. Before it has, a fork goes on with
 * its parent's unwind tables: it has the same mappings, and many live no longer
 * than it takes to read them.
 */
struct scope_entry {
	u32 bits;       /* of enum scope_bit */
	u32 space;      /* where its unwind tables are: struct unwind_state.space */
	u64 lent_until; /* CLOCK_MONOTONIC, ns: how long the parent's are used, while nothing is decided */
	u32 exec_id;    /* task_struct.self_exec_id of the program that was asked about; 0 in a fork's */
	u32 unused;
};

/*
 * How long a fork may use its parent's tables. Less than user space keeps those
 * that were replaced (retireAfter of internal/engine).
 */
#define SCOPE_LENT_NS 1500000000ULL

enum process_event_type {
	PROCESS_FORK = 1,
	PROCESS_EXEC = 2,
	PROCESS_EXIT = 3,
	PROCESS_ASK = 4, /* an observation met a process that has no entry in scope */
};

/* Record of the ring buffer process_events. */
struct process_event {
	u64 start_boottime; /* ns, of the process's group leader */
	u32 type;           /* enum process_event_type */
	u32 pid;            /* thread group id */
	u32 parent_pid;     /* of a fork: thread group id of the parent, else 0 */
	u32 exec_id;        /* task_struct.self_exec_id: which program the process runs */
	char comm[TASK_COMM_LEN]; /* of the task that caused the event */
};

#define ENOENT 2
#define EEXIST 17

/* Losses of the shared maps, by reason; index of process_losses. */
enum process_loss {
	PROCESS_LOST_RING_FULL = 0,
	PROCESS_LOST_SCOPE_FULL = 1,
	PROCESS_LOSS_REASONS = 2,
};

/*
 * By thread group id. An entry lives from the first time that
 * somebody cares about the process until its exec, or until user space is done
 * with the process after its exit. Preallocated, because perf event
 * programs accept no other kind on 5.10. The size is set by the loader.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scope_entry);
} scope SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} process_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROCESS_LOSS_REASONS);
	__type(key, u32);
	__type(value, u64);
} process_losses SEC(".maps");

static __always_inline void process_lost(u32 reason)
{
	u64 *count = bpf_map_lookup_elem(&process_losses, &reason);

	if (count)
		*count += 1;
}

/*
 * Tells user space of an event. Only PROCESS_ASK wakes the reader: it comes once
 * in a process's life and its mappings must be read before the process is gone.
 */
static __always_inline long process_tell(u32 type, u32 pid, u32 parent_pid, u64 start_boottime, u32 exec_id)
{
	struct process_event *event;

	event = bpf_ringbuf_reserve(&process_events, sizeof(*event), 0);
	if (!event) {
		process_lost(PROCESS_LOST_RING_FULL);
		return -1;
	}
	event->start_boottime = start_boottime;
	event->type = type;
	event->pid = pid;
	event->parent_pid = parent_pid;
	event->exec_id = exec_id;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bpf_ringbuf_submit(event, type == PROCESS_ASK ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

/* Tells whether a process was decided to be out of scope of a kind. */
static __always_inline bool scope_excludes(const struct scope_entry *known, u32 kind)
{
	return known && (known->bits & (SCOPE_DECIDED | kind)) == SCOPE_DECIDED;
}

/*
 * Asks user space whether the process is in scope, once: the entry keeps the
 * next sample from asking again. forked is the entry that its fork has made, or 0.
 */
static __always_inline void scope_ask(const struct scope_entry *forked, u32 pid, u64 start_boottime, u32 exec_id)
{
	struct scope_entry asked = { .bits = SCOPE_ASKED, .exec_id = exec_id };
	long err;

	if (forked) {
		asked.space = forked->space;
		asked.lent_until = forked->lent_until;
	}
	err = bpf_map_update_elem(&scope, &pid, &asked, forked ? BPF_EXIST : BPF_NOEXIST);
	if (err == -EEXIST || err == -ENOENT)
		return; /* another CPU asks at this moment, or another thread is in an exec */
	if (err) {
		process_lost(PROCESS_LOST_SCOPE_FULL);
		return;
	}
	if (process_tell(PROCESS_ASK, pid, 0, start_boottime, exec_id))
		bpf_map_delete_elem(&scope, &pid);
}

/* The tables that the process has, or that its parent lends it; 0 for none. */
static __always_inline u32 scope_space(const struct scope_entry *known)
{
	if (known->bits & SCOPE_DECIDED)
		return known->space;
	return known->space && bpf_ktime_get_ns() < known->lent_until ? known->space : 0;
}

/*
 * Where the unwind tables of a process are that is observed, 0 for none. known is
 * its entry: user space is asked where it was not told of the process yet.
 */
static __always_inline u32 scope_met(const struct scope_entry *known, u32 pid, u64 start_boottime, u32 exec_id)
{
	u32 space = known ? scope_space(known) : 0;

	if (!known || known->bits & SCOPE_FORKED)
		scope_ask(known, pid, start_boottime, exec_id);
	return space;
}

/* What a fork has until user space has decided about it. */
static __always_inline void scope_fork(u32 parent_pid, u32 pid)
{
	const struct scope_entry *parent = bpf_map_lookup_elem(&scope, &parent_pid);
	struct scope_entry forked = { .bits = SCOPE_FORKED };

	/* What a late answer of user space may have said of the pid's last owner. */
	bpf_map_delete_elem(&scope, &pid);
	if (!parent)
		return;
	forked.space = scope_space(parent);
	if (!forked.space)
		return;
	forked.lent_until = parent->bits & SCOPE_DECIDED ? bpf_ktime_get_ns() + SCOPE_LENT_NS : parent->lent_until;
	/* Where the map is full its first sample counts that. */
	bpf_map_update_elem(&scope, &pid, &forked, BPF_NOEXIST);
}

/* A process that nobody has asked about ends: nobody else takes its entry away. */
static __always_inline void scope_exit(u32 pid)
{
	const struct scope_entry *known = bpf_map_lookup_elem(&scope, &pid);

	if (known && known->bits & SCOPE_FORKED)
		bpf_map_delete_elem(&scope, &pid);
}

static __always_inline u64 process_start(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime);
}

/* Counts the execs in a task's ancestry; with the pid it names one program's run. */
static __always_inline u32 process_exec_id(struct task_struct *task)
{
	return BPF_CORE_READ(task, self_exec_id);
}

/* Both of the running thread's process; without a call for each word since bpf_get_current_task_btf (5.11). */
static __always_inline void process_current(u64 *start_boottime, u32 *exec_id)
{
	struct task_struct *task;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)) {
		task = bpf_get_current_task_btf();
		*start_boottime = task->group_leader->start_boottime;
		*exec_id = task->self_exec_id;
	} else {
		task = (struct task_struct *)bpf_get_current_task();
		*start_boottime = process_start(task);
		*exec_id = process_exec_id(task);
	}
}

#endif
