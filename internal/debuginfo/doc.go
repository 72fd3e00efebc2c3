// SPDX-License-Identifier: Apache-2.0

// Package debuginfo finds for the address of a binary its source line, the function that contains it, and the functions into which that one
// was inlined.
//
// It reads DWARF 2 to 5: the binary's own sections, those of a separate debug file, split units (.dwo, .dwp) and what dwz moved to a common
// file. [Data] is the debug information of one binary. Opening it reads the first entry of each unit. A unit's tables are made at the first
// lookup of an address in it, and evicted, the least recently used first, when they exceed a bound.
//
// All input is hostile: all offsets are checked, all references followed for a bounded number of steps, and a unit whose tables would exceed
// the bound has none. Errors name section and offset; the caller adds the path.
package debuginfo
