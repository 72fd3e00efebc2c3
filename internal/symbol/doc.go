// SPDX-License-Identifier: Apache-2.0

// Package symbol turns the addresses of a stack into frames.
//
// The packages below it read what names addresses, and know neither processes nor the lock: elfsym the tables of ELF files, codemap the files
// in which processes list compiled code, kernelsym the kernel. disasm decodes instructions, budget shares bounds among users, reason has the
// causes of missing names.
//
// A [Symbolizer] holds what is known of binaries and of the kernel, shared by all processes; an [AddressSpace] holds where one process mapped
// them. Opening an address space only identifies the binaries. A symbol table is built for the first address in it that needs a name, and
// names are read from the file when they are first used. Two goroutines read tables, one small and one large ones, each with a budget of CPU
// time: a frame that is requested before its table exists gets its name later, see [model.Frame]. A table that does not fit into memory is
// not held: passes over its file answer the requested addresses. Everything is kept by the identity of the file, never by its path, within
// one bound of memory: the least recently used is evicted first and read again on demand.
//
// The kernel names its functions itself, through a BPF program (Linux 5.16 and newer); what it does not name is looked up in /proc/kallsyms.
//
// Code that a process compiles at run time is named by a perf map or a jitdump that the process writes, which are read as they grow. They
// belong to the address space and are dropped with it.
//
// Files of observed processes are hostile input. They are opened without following a link out of the process's own root, must be regular
// files, are read with bounded preads and never mapped into memory (truncating a mapped file would kill the reader).
//
// One goroutine reads debug information concurrently: a frame that may get lines has a reference to its later version with them, see
// [model.Frame]. What that goroutine reads belongs to it alone, so that it reads without the lock.
//
// A file system that hangs (FUSE, NFS) delays only callers that name its own processes. The lock of the Symbolizer is released while a file
// of a process is opened, read or closed. A call to a file system without a disk of this host has a second; after that the file system is not
// called for a minute. A lane that reads tables or lines waits that second, too.
//
// Known limits: a disk of this host that hangs blocks its caller without a bound. The caller of a leaf without a frame is not found if the function has no symbol, nor, except in Go, after it has moved
// the stack, even if moved back. The latest state of compiled code counts: if its addresses were reused before a sample was read, the sample
// has the name of the later code.
package symbol
