// SPDX-License-Identifier: Apache-2.0

// Package stacks is what the kinds of observation share whose BPF programs sum
// stacks in the tables of bpf/include/stack_table.h: it makes the tables, reads
// and clears them through shared memory, and turns their entries into profiles.
package stacks
