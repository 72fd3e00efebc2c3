// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What watched processes have used, read at once: CPU time and threads. One pass
 * over all tasks of the host writes it to memory that user space has mapped, so
 * that a look costs one system call, however many processes are watched.
 *
 * Hook: iter/task. Kernels: 5.10 and newer.
 */
#include "include/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* What a process has used, as of the pass that is named. */
struct process_usage {
	u64 start_boottime; /* ns: whose it is */
	u64 cpu;            /* ns, of threads that have ended included */
	u32 threads;
	u32 pass;
};

/* Keep it in the BTF, from which the Go type is made. */
const struct process_usage *unused_process_usage __attribute__((unused));

/* Where in process_usages a process is, by its thread group id. */
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

/* Counted up by user space before each pass. */
volatile u32 usage_pass;

/*
 * Threads come in the order of their ids, so that the first one may come at any
 * time: whichever is met first begins.
 */
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
