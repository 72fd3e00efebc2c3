// SPDX-License-Identifier: Apache-2.0

// Package store keeps unwind tables where BPF programs read them: in chunks of memory that the kernel and user space share
// (bpf/include/unwind.h). The table of a binary is stored once, however many processes run it; each process has a list of its mappings that
// leads to the tables.
package store
