// SPDX-License-Identifier: Apache-2.0

// Package symbol turns the addresses of a stack into frames.
//
// A [Symbolizer] holds what is known of binaries and of the kernel, shared by
// all processes; an [AddressSpace] holds where one process mapped them. Opening
// an address space only identifies the binaries; a symbol table is built when
// the first address in it asks for a name, and names are read from the file
// when they are first hit. Everything is kept by the identity of the file,
// never by its path, within one bound of memory: the least recently used goes
// first and comes back when it is asked for again.
//
// The kernel names its functions itself, when a BPF program asks it (Linux 5.16
// and newer); what it does not name is looked up in /proc/kallsyms.
//
// Code that a process compiles while it runs is named by what the process tells of
// it, in a perf map or a jitdump, which are read as they grow. That belongs to the
// address space and goes with it.
//
// Files of observed processes are hostile input. They are opened without
// following a link out of the process's own root, must be regular files, are
// read with bounded preads and never mapped into memory (a file that is cut
// short while mapped would kill the reader).
//
// Debug information is read by one goroutine beside all that: a frame that may get
// lines tells where it will have them, see [model.Frame]. What that goroutine reads
// belongs to it alone, so that it reads without the lock.
//
// Known limits: all symbol tables are built under the lock of the Symbolizer; a read
// from a file system that hangs (FUSE, NFS) therefore holds up all naming. The
// caller of a leaf without a frame is not found where the function has no
// symbol, nor, but for Go, after it has moved the stack, even if moved back. Of compiled
// code the latest state holds: a sample of code whose place was given to other code
// before the sample was read has the other's name.
package symbol
