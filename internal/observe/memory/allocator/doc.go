// SPDX-License-Identifier: Apache-2.0

// Package allocator finds the functions of a binary by which programs allocate and free
// memory: the malloc family of any library, C++'s operators where the allocator brings
// its own, and Go's runtime.mallocgc.
//
// Functions are found by name, in the dynamic symbols, in the symbol table where these
// name none, and in Go's pclntab, which stripped binaries have, too. The files that it
// reads are untrusted: everything is bounded.
package allocator
