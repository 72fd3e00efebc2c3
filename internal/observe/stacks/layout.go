// SPDX-License-Identifier: Apache-2.0

package stacks

const (
	// MaxDepth is the deepest user stack that can be exported; one frame more is taken,
	// to see which are deeper (USER_FRAMES_MAX of stack_table.h).
	MaxDepth = 1023
	// DefaultDepth is how deep stacks are exported by default: the kernel's own limit for its
	// stacks (PERF_MAX_STACK_DEPTH).
	DefaultDepth = helperFrames
	// helperFrames is HELPER_FRAMES of stack_table.h.
	helperFrames = 127
)

const (
	// EntryHeadBytes is the size of struct stack_entry without its frames.
	EntryHeadBytes = 88
	// tableHeadBytes is the size of struct stack_table without its arena.
	tableHeadBytes = 48 + 2*1024

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
