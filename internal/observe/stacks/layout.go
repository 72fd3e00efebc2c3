// SPDX-License-Identifier: Apache-2.0

package stacks

// MaxDepth is the deepest stack that the tables take, the one that the kernel's
// own unwinder gives (PERF_MAX_STACK_DEPTH).
const MaxDepth = 127

const (
	// EntryHeadBytes is the size of struct stack_entry without its frames.
	EntryHeadBytes = 88
	// EntryBytesMax is ENTRY_BYTES_MAX of stack_table.h: the kernel begins no entry
	// unless this much of the arena is free, however deep the stacks may be.
	EntryBytesMax = EntryHeadBytes + 2*8*MaxDepth
	// tableHeadBytes is the size of struct stack_table without its arena.
	tableHeadBytes = 72 + 2*1024

	// MinArenaBytes and MaxArenaBytes bound the memory for entries in one table.
	MinArenaBytes = 32 << 10
	MaxArenaBytes = 512 << 10
)

// ArenaShare is the room for entries of one table when the two of each of so many
// CPUs have mapBytes together: whole pages between [MinArenaBytes] and
// [MaxArenaBytes], and no more than wanted.
func ArenaShare(wanted, mapBytes uint64, cpus int) uint32 {
	share := mapBytes / uint64(2*cpus)
	arena := min(max(wanted, MinArenaBytes), MaxArenaBytes, max(share, MinArenaBytes))
	return uint32(arena / 4096 * 4096)
}
