// SPDX-License-Identifier: Apache-2.0

// Package unwind turns the unwind information of a binary into a compact table that a BPF program searches: for each address of code a [Rule]
// that leads from a frame to its caller.
//
// [Build] reads, in this order of precedence, .eh_frame, Go's pclntab, .debug_frame, and the .debug_frame of separate debug files. Code that
// none of them covers has the zero rule: it is unknown, and frame pointers may work.
//
// Files are hostile input. They are read in bounded chunks, the memory and the work for one file are bounded by its size and by [Limits], and
// contradictory parts are left out and counted, with the first cause in [Table.Err]. Only 64-bit little-endian x86-64 and arm64 are
// supported.
//
// Formats: Linux Standard Base Core 5.0, chapter 10.6 (.eh_frame); DWARF 5,
// section 6.4 (call frame information); runtime/symtab.go and
// internal/abi/symtab.go of Go (pclntab).
package unwind
