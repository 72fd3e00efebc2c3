// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Stats is a snapshot of the symbolizer's sizes and counts. Counts are since it was made, bytes are estimates of Go heap.
type Stats struct {
	// Spaces is the number of open address spaces.
	Spaces int
	// Binaries is the number of files known by identity, Tables how many of them have tables in memory, OpenFiles how many are held open.
	Binaries, Tables, OpenFiles int
	// TableBytes, FrameBytes and OtherBytes (names of mappings, file pages, regions of address spaces) add up to what counts against the
	// bound.
	TableBytes, FrameBytes, OtherBytes int64
	// TablesBuilt counts table builds, TablesEvicted and FramesEvicted what was dropped to stay within the bound.
	TablesBuilt, TablesEvicted, FramesEvicted uint64
	// TablesRebuilt counts tables that were built again soon after they were dropped, PartialPasses the passes over files whose tables do not
	// fit into memory.
	TablesRebuilt, PartialPasses uint64
	// CacheHits and CacheMisses count look-ups of single addresses.
	CacheHits, CacheMisses uint64
	// Named counts frames returned with a function, Unnamed those without.
	Named   uint64
	Unnamed map[reason.Name]uint64
	// Runtimes counts the open address spaces that have a language runtime.
	Runtimes map[model.Runtime]int
	// Errors counts what could not be read or parsed; LastError is the latest.
	Errors    map[reason.Name]uint64
	LastError error
}

// counters are the counted parts of Stats. They are guarded by the mutex of the Symbolizer.
type counters struct {
	tablesBuilt, tablesEvicted, framesEvicted uint64
	tablesRebuilt, partialPasses              uint64
	hits, misses                              uint64
	frames                                    [reason.Causes]uint64
	errors                                    [reason.Causes]uint64
	last                                      error
}

func byReason(counts *[reason.Causes]uint64) map[reason.Name]uint64 {
	m := make(map[reason.Name]uint64)
	for c := reason.Named + 1; c < reason.Causes; c++ {
		if counts[c] > 0 {
			m[c.Name()] = counts[c]
		}
	}
	return m
}
