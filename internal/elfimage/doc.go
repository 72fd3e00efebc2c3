// SPDX-License-Identifier: Apache-2.0

// Package elfimage reads ELF files that nobody vouches for: headers, sections,
// the dynamic section and Go's pclntab.
//
// It reads in bounded pieces through [Image] and keeps no more than a bounded
// number of headers, where debug/elf keeps every one that a file claims to
// have. Little-endian files only. Errors say what was read and where in the
// file; the caller adds the path. Nothing here logs, caches or locks: who
// calls it decides what is kept.
package elfimage
