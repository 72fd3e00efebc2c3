// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Stats is what the engine reports about itself. Counts are since the start.
type Stats struct {
	// Events counts what each probe has seen, lost ones included.
	Events map[string]uint64
	// Lost counts what was lost, Incomplete what was exported less complete than it was
	// seen: stacks that are cut, code without tables.
	Lost, Incomplete map[LossKey]uint64
	// Unmerged counts events for which the kernel's table had no free slot near.
	// Nothing is lost by it: user space merges them.
	Unmerged map[string]uint64
	// SeriesRetired counts series of metrics that ended, since nothing was counted in them for long.
	SeriesRetired uint64
	// Frames counts the frames of stacks, Unnamed those without a name, by reason.
	Frames  uint64
	Unnamed map[string]uint64
	// SymbolHits and SymbolMisses count look-ups of addresses.
	SymbolHits, SymbolMisses uint64
	SymbolEvictions          uint64
	// SymbolTables counts symbol tables by what was done: built, rebuilt soon after an eviction, and pass for a pass over a file whose
	// table does not fit in memory.
	SymbolTables map[string]uint64
	// UnwindHits counts unwind tables that were there when a process was found to map
	// their binary, UnwindMisses those that were made, and UnwindEvictions those that
	// were evicted for others.
	UnwindHits, UnwindMisses, UnwindEvictions uint64
	SymbolErrors                              map[string]uint64
	// Runtimes counts the programs that run a language runtime.
	Runtimes map[model.Runtime]int
	// MapBytes, SymbolBytes, SampleBytes and ProcessBytes are what is held.
	MapBytes, SymbolBytes, SampleBytes, ProcessBytes uint64
	// BuildingBytes is the memory of unwind tables that are being built.
	BuildingBytes uint64
	// MapFill is how full kernel maps are, from 0 to 1: of scope now, of
	// process_events the most that waited for a drain in the last minute or two.
	MapFill map[string]float64
	// Attached counts the hooks that programs of each probe are attached to now.
	Attached map[string]int
	// Programs are the loaded BPF programs.
	Programs map[string]ProgramStats
	// EngineTime is the CPU time of the engine's own work.
	EngineTime time.Duration
	// Known and InScope count processes.
	Known, InScope int
	// ProcessErrors counts failed reads of /proc.
	ProcessErrors map[string]uint64
	// Triggers counts how often policies have fired, those included of which nothing came.
	Triggers uint64
	// SelectorsUnmatched counts selectors that match no process.
	SelectorsUnmatched int
	// Degraded names capabilities that are missing or less than was configured;
	// the value says why and what to do.
	Degraded map[string]string
	// Missing are those of them that are kinds of observation: what was configured
	// and does not run.
	Missing []string
	// Levels are the steps by which each kind that runs is reduced; 0 is as configured.
	Levels map[string]int
}

// LossKey says where and why something was lost.
type LossKey struct {
	Probe, Reason string
}

// ProgramStats is the kernel's own account of a BPF program.
type ProgramStats struct {
	Runs uint64
	Time time.Duration
}
