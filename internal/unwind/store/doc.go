// SPDX-License-Identifier: Apache-2.0

// Package store keeps unwind tables where BPF programs read them: in chunks of
// memory that both sides share (bpf/include/unwind.h). Tables are there once for
// each binary, however many processes run it; each process has a list of its
// mappings that leads to them.
package store
