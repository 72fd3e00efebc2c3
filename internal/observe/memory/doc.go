// SPDX-License-Identifier: Apache-2.0

// Package memory observes where processes take memory: page faults by stack, or
// sampled calls of their allocators, with what of these was not freed.
//
// Allocators are found by name in what a process has mapped (package allocator)
// and looked at by uprobes that are in that process alone: others never meet a
// breakpoint. Which calls are sampled is decided in the kernel, see
// bpf/include/allocation.h; estimate.go says what a sample stands for.
package memory
