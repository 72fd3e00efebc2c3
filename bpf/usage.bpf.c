// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * CPU time and number of threads of watched processes. One pass over all tasks of the host writes them to
 * memory that user space has mapped, so that reading costs one system call for any number of watched
 * processes.
 *
 * Hook: iter/task. Kernels: 5.10 and later.
 */
#include "include/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* What a process has used, as of the pass with a number. */
struct process_usage {
	u64 start_boottime; /* ns: identifies the process */
	u64 cpu;            /* ns, including exited threads */
	u32 threads;
	u32 pass;
};

/* Keeps the type in BTF, from which bpf2go generates the Go type. */
const struct process_usage *unused_process_usage __attribute__((unused));

/* The index of a process in process_usages, by its thread group id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} usage_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct process_usage);
} process_usages SEC(".maps");

/* Incremented by user space before each pass. */
volatile u32 usage_pass;

/* Threads are in the order of their ids, so that the main thread may not be first: the first one found begins. */
SEC("iter/task")
int read_usage(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct process_usage *usage;
	u32 pid, *place;

	if (!task)
		return 0;
	pid = task->tgid;
	place = bpf_map_lookup_elem(&usage_places, &pid);
	if (!place)
		return 0;
	usage = bpf_map_lookup_elem(&process_usages, place);
	if (!usage)
		return 0;
	if (usage->pass != usage_pass) {
		usage->pass = usage_pass;
		usage->cpu = BPF_CORE_READ(task, signal, sum_sched_runtime);
		usage->threads = BPF_CORE_READ(task, signal, nr_threads);
		usage->start_boottime = task->group_leader->start_boottime;
	}
	usage->cpu += task->se.sum_exec_runtime;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
