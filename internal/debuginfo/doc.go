// SPDX-License-Identifier: Apache-2.0

// Package debuginfo tells for the address of a binary which source line it
// belongs to, which function that is in, and into which functions that one
// was inlined.
//
// It reads DWARF 2 to 5: the binary's own sections, those of a separate debug
// file, split units (.dwo, .dwp) and what dwz moved to a common file. [Data]
// is what is known of one binary. Opening it reads the head of each unit; a
// unit's tables are made when the first address in it is asked for, and
// dropped again, the least recently used first, when they exceed a bound.
//
// Everything that is read is hostile input: all offsets are checked, all
// references followed for a bounded number of steps, and a unit whose tables
// would exceed the bound has none. Errors name section and offset; the caller
// adds the path.
package debuginfo
