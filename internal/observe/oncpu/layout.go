// SPDX-License-Identifier: Apache-2.0

package oncpu

import "time"

const (
	// entryHeadBytes is the size of struct oncpu_entry without its frames.
	entryHeadBytes = 64
	// tableHeadBytes is the size of struct oncpu_table without its arena.
	tableHeadBytes = 56 + 4*1024
	// entryBytesMax is ENTRY_BYTES_MAX of oncpu.bpf.c: the kernel begins no entry
	// unless this much of the arena is free, however deep the stacks may be.
	entryBytesMax = entryHeadBytes + 2*8*MaxDepth

	minArenaBytes = 32 << 10
	maxArenaBytes = 512 << 10

	minDrainInterval = 50 * time.Millisecond
	maxDrainInterval = time.Second
)

// layout is the size of one CPU's table and how often it must be emptied so that
// it cannot fill, even if every stack were new and as deep as can be.
type layout struct {
	arenaBytes    uint32
	drainInterval time.Duration
}

// planLayout gives each table room for a second of samples, as far as two tables
// for each CPU stay below mapBytes, and empties them before four fifths of it
// can be full.
func planLayout(period time.Duration, frames int, cpus int, mapBytes uint64) layout {
	worst := uint64(entryHeadBytes + 2*8*frames)
	wanted := worst*uint64(maxDrainInterval/period+1)*5/4 + entryBytesMax
	share := mapBytes / uint64(2*cpus)
	arena := min(max(wanted, minArenaBytes), maxArenaBytes, max(share, minArenaBytes))
	arena = arena / 4096 * 4096
	room := (arena-entryBytesMax)/worst + 1
	interval := time.Duration(room) * period * 4 / 5
	return layout{
		arenaBytes:    uint32(arena),
		drainInterval: min(max(interval, minDrainInterval), maxDrainInterval),
	}
}
