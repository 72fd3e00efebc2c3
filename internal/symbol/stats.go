// SPDX-License-Identifier: Apache-2.0

package symbol

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// Stats is a snapshot of what the symbolizer holds and has done since it was
// made. Bytes are estimates of Go heap.
type Stats struct {
	// Spaces is the number of open address spaces.
	Spaces int
	// Binaries is the number of files known by identity, Tables how many of
	// them have tables in memory, OpenFiles how many are held open.
	Binaries, Tables, OpenFiles int
	// TableBytes, FrameBytes and OtherBytes (names of mappings, file pages,
	// regions of address spaces) add up to what is held against the bound.
	TableBytes, FrameBytes, OtherBytes int64
	// TablesBuilt counts table builds, TablesEvicted and FramesEvicted what was
	// dropped to stay within the bound.
	TablesBuilt, TablesEvicted, FramesEvicted uint64
	// CacheHits and CacheMisses count look-ups of single addresses.
	CacheHits, CacheMisses uint64
	// Named counts frames returned with a function, Unnamed those without.
	Named   uint64
	Unnamed map[Reason]uint64
	// Runtimes counts the open address spaces that have a language runtime.
	Runtimes map[model.Runtime]int
	// Errors counts what could not be read or parsed; LastError is the latest.
	Errors    map[Reason]uint64
	LastError error
}

// counters are the parts of Stats that are counted rather than derived. They
// are guarded by the mutex of the Symbolizer.
type counters struct {
	tablesBuilt, tablesEvicted, framesEvicted uint64
	hits, misses                              uint64
	frames                                    [numCauses]uint64
	errors                                    [numCauses]uint64
	last                                      error
}

func byReason(counts *[numCauses]uint64) map[Reason]uint64 {
	m := make(map[Reason]uint64)
	for c := named + 1; c < numCauses; c++ {
		if counts[c] > 0 {
			m[reasons[c]] = counts[c]
		}
	}
	return m
}
