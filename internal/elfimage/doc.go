// SPDX-License-Identifier: Apache-2.0

// Package elfimage reads untrusted ELF files: headers, sections, the dynamic section and Go's pclntab.
//
// It reads in bounded chunks through [Image] and keeps no more than a bounded number of headers, where debug/elf keeps every one that a file
// claims to have. Little-endian files only. Errors name what was read and where in the file; the caller adds the path. Nothing here logs,
// caches or locks: the caller decides what is kept.
package elfimage
