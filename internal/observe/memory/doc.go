// SPDX-License-Identifier: Apache-2.0

// Package memory observes where processes allocate memory: page faults by stack, or
// sampled calls of their allocators, with the share of these that was not freed.
//
// Allocators are found by name in what a process has mapped (package allocator) and
// probed by uprobes in that process alone: other processes never hit a breakpoint.
// Which calls are sampled is decided in the kernel, see bpf/include/allocation.h;
// estimate.go documents what a sample stands for.
package memory
