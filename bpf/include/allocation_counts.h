/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Counters of the programs on allocators.
 */
#ifndef EBPFRECEIVER_ALLOCATION_COUNTS_H
#define EBPFRECEIVER_ALLOCATION_COUNTS_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

/* Counters, index of allocation_counts. */
enum allocation_count {
	ALLOCATION_CALLS = 0,      /* calls of allocating functions in scope */
	ALLOCATION_RELEASES = 1,   /* calls of freeing functions in scope */
	ALLOCATION_NESTED = 2,     /* sampled calls that were part of another one */
	ALLOCATION_LIVE_FULL = 3,  /* sampled allocations that did not fit in `live` */
	ALLOCATION_UNTRACKED = 4,  /* sampled allocations whose return must not be probed */
	ALLOCATION_COUNTS = 5,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ALLOCATION_COUNTS);
	__type(key, u32);
	__type(value, u64);
} allocation_counts SEC(".maps");

/* Keeps this type in BTF, from which bpf2go generates the Go type. */
const enum allocation_count *unused_allocation_count __attribute__((unused));

static __always_inline void allocation_counted(u32 what)
{
	u64 *count = bpf_map_lookup_elem(&allocation_counts, &what);

	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
