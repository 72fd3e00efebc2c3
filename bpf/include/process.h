/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What all programs share about processes: which are in scope, and the events by which user space learns of
 * processes. The loader of process.bpf.c creates the maps once and shares them with every other object.
 */
#ifndef EBPFRECEIVER_PROCESS_H
#define EBPFRECEIVER_PROCESS_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * The decision of user space about a process: a bit for each kind of observation that the process is in scope
 * of. SCOPE_ASKED alone: a decision was requested and is pending.
 */
enum scope_bit {
	SCOPE_ASKED = 0,
	SCOPE_ON_CPU = 1 << 0,
	SCOPE_OFF_CPU = 1 << 1,
	SCOPE_MEMORY = 1 << 2,
	SCOPE_NETWORK = 1 << 3,
	SCOPE_MONITORS = 1 << 4, /* the requests that it answers, for policies */
	SCOPE_TASK = 1 << 16, /* and the seven above: observations that tasks have started */
	SCOPE_FORKED = 1 << 29, /* user space does not know the process, but its parent has unwind tables */
	SCOPE_DECIDED = 1 << 30,
};

/*
 * The bit of an object: that of its kind, unless the loader sets another one because the kind is loaded more
 * than once.
 */
#define OBSERVES(bit) volatile const u32 scope_bit = bit

/*
 * The decision about a process. Until there is one, a fork uses the unwind tables of its parent: it has the
 * same mappings, and many exit before these could be read.
 */
struct scope_entry {
	u32 bits;       /* of enum scope_bit */
	u32 space;      /* its unwind tables: struct unwind_state.space */
	u64 shared_until; /* CLOCK_MONOTONIC, ns: until when a fork uses its parent's tables */
	u32 exec_id;    /* task_struct.self_exec_id of the program that the decision was requested for; 0 in the entry of a fork */
	u32 unused;
};

/*
 * How long a fork may use its parent's tables: less than user space keeps replaced tables (retireAfter of
 * internal/engine).
 */
#define SCOPE_SHARED_NS 1500000000ULL

enum process_event_type {
	PROCESS_FORK = 1,
	PROCESS_EXEC = 2,
	PROCESS_EXIT = 3,
	PROCESS_ASK = 4, /* an observation found a process without an entry in scope */
};

/* Record of the ring buffer process_events. */
struct process_event {
	u64 start_boottime; /* ns, of the thread group leader */
	u32 type;           /* enum process_event_type */
	u32 pid;            /* thread group id */
	u32 parent_pid;     /* of a fork: thread group id of the parent, otherwise 0 */
	u32 exec_id;        /* task_struct.self_exec_id: identifies the program that the process runs */
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
 * By thread group id. An entry is created when an observation finds the process, and removed at its exec, or
 * by user space after its exit. The map is preallocated, because perf event programs accept no other on Linux
 * 5.10. The loader sets the size.
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
 * Sends an event to user space. Only PROCESS_ASK wakes the reader: it is sent once per process, whose
 * mappings must be read before it exits.
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

/* Reports whether a process was decided to be out of scope of a kind. */
static __always_inline bool scope_excludes(const struct scope_entry *known, u32 kind)
{
	return known && (known->bits & (SCOPE_DECIDED | kind)) == SCOPE_DECIDED;
}

/*
 * Requests a decision about a process, once: the entry prevents another request. forked is the entry that its
 * fork has created, or 0.
 */
static __always_inline void scope_request(const struct scope_entry *forked, u32 pid, u64 start_boottime, u32 exec_id)
{
	struct scope_entry asked = { .bits = SCOPE_ASKED, .exec_id = exec_id };
	long err;

	if (forked) {
		asked.space = forked->space;
		asked.shared_until = forked->shared_until;
	}
	err = bpf_map_update_elem(&scope, &pid, &asked, forked ? BPF_EXIST : BPF_NOEXIST);
	if (err == -EEXIST || err == -ENOENT)
		return; /* another CPU requests it at this moment, or another thread is in exec */
	if (err) {
		process_lost(PROCESS_LOST_SCOPE_FULL);
		return;
	}
	if (process_tell(PROCESS_ASK, pid, 0, start_boottime, exec_id))
		bpf_map_delete_elem(&scope, &pid);
}

/* Returns the tables of the process, or those of its parent that it may use; 0: none. */
static __always_inline u32 scope_space(const struct scope_entry *known)
{
	if (known->bits & SCOPE_DECIDED)
		return known->space;
	return known->space && bpf_ktime_get_ns() < known->shared_until ? known->space : 0;
}

/*
 * Returns the unwind tables of an observed process, 0 for none. known is its entry; without a decision,
 * requests one.
 */
static __always_inline u32 scope_discover(const struct scope_entry *known, u32 pid, u64 start_boottime, u32 exec_id)
{
	u32 space = known ? scope_space(known) : 0;

	if (!known || known->bits & SCOPE_FORKED)
		scope_request(known, pid, start_boottime, exec_id);
	return space;
}

/* Creates the entry of a fork, which is valid until a decision. */
static __always_inline void scope_fork(u32 parent_pid, u32 pid)
{
	const struct scope_entry *parent = bpf_map_lookup_elem(&scope, &parent_pid);
	struct scope_entry forked = { .bits = SCOPE_FORKED };

	/* From a late decision about a previous process with this pid. */
	bpf_map_delete_elem(&scope, &pid);
	if (!parent)
		return;
	forked.space = scope_space(parent);
	if (!forked.space)
		return;
	forked.shared_until = parent->bits & SCOPE_DECIDED ? bpf_ktime_get_ns() + SCOPE_SHARED_NS : parent->shared_until;
	/* If the map is full, the first sample counts it. */
	bpf_map_update_elem(&scope, &pid, &forked, BPF_NOEXIST);
}

/* Removes the entry of a process that exits without a decision: user space does not know it. */
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

/* Returns the number of execs in a task's ancestry. With the pid it identifies a program. */
static __always_inline u32 process_exec_id(struct task_struct *task)
{
	return BPF_CORE_READ(task, self_exec_id);
}

/*
 * Gets both of the running thread's process; without a helper call per word since bpf_get_current_task_btf
 * (Linux 5.11).
 */
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
