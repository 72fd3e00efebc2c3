// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

const (
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
func planLayout(period time.Duration, depth stacks.Depth, cpus int, mapBytes uint64) layout {
	worst := uint64(depth.EntryBytes())
	wanted := worst * (uint64(maxDrainInterval/period+1)*5/4 + 1)
	arena := stacks.ArenaShare(wanted, mapBytes, cpus)
	room := uint64(arena) / worst
	interval := time.Duration(room) * period * 4 / 5
	return layout{
		arenaBytes:    arena,
		drainInterval: min(max(interval, minDrainInterval), maxDrainInterval),
	}
}
