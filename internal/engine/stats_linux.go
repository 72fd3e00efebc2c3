// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import "maps"

// probeProcess names the programs that all observations share.
const probeProcess = "process"

// Stats returns what the engine reports about itself. It may be called from any
// goroutine, also after Shutdown.
func (e *Engine) Stats() Stats {
	stats := Stats{
		Events:     map[string]uint64{},
		Lost:       map[LossKey]uint64{},
		Incomplete: map[LossKey]uint64{},
		Unmerged:   map[string]uint64{},
		Attached:   map[string]int{},
		EngineTime: e.work.total() + e.once.total(),
		Degraded:   map[string]string{},
		Levels:     map[string]int{},
	}
	if e.tracker == nil {
		return stats
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readLast()
	stats.Degraded = e.degradedNow()
	stats.Programs = maps.Clone(e.last.programs)
	maps.Copy(stats.Lost, e.last.losses)
	maps.Copy(stats.Incomplete, e.last.incomplete)
	stats.MapBytes = e.last.mapBytes
	stats.MapFill = e.mapFill()
	for _, m := range e.missing {
		stats.Attached[string(m.kind)] = 0
		stats.Missing = append(stats.Missing, string(m.kind))
	}
	maps.Copy(stats.Events, e.past.events)
	maps.Copy(stats.Unmerged, e.past.unmerged)
	stats.SeriesRetired = e.past.retired
	for _, o := range e.running {
		stats.Events[string(o.kind)] += o.Samples()
		stats.Unmerged[string(o.kind)] += unmerged(o)
		stats.SeriesRetired += retiredSeries(o)
		stats.Attached[string(o.kind)] += o.Attached()
		if levelsOf(o) > 0 {
			level, _ := e.levels.Load(o.kind)
			stats.Levels[string(o.kind)], _ = level.(int)
		}
	}
	if !e.released {
		stats.Attached[probeProcess] = len(e.tracker.Programs())
	} else {
		clear(stats.Attached)
	}
	stats.SampleBytes = e.sampleBytes()
	stats.ProcessBytes = e.table.Bytes()
	e.processStats(&stats)
	e.symbolStats(&stats)
	if e.policies != nil {
		e.policies.stats(&stats)
	}
	if e.unwinding != nil {
		tables := e.unwinding.store.Stats()
		stats.BuildingBytes = e.unwinding.buildingBytes()
		stats.UnwindHits, stats.UnwindMisses, stats.UnwindEvictions = tables.Found, tables.Built+tables.Full, tables.Evicted
	}
	return stats
}

func (e *Engine) processStats(stats *Stats) {
	table := e.table.Stats()
	stats.Known, stats.InScope = table.Known, table.InScope
	stats.SelectorsUnmatched = len(table.Unmatched)
	stats.ProcessErrors = map[string]uint64{}
	for key, n := range table.ReadErrors {
		stats.ProcessErrors[key.Reason] += n
	}
	stats.Lost[LossKey{probeProcess, "table_full"}] = table.Untracked
	stats.Lost[LossKey{probeProcess, "linger_full"}] = table.LingerDropped
	stats.Lost[LossKey{probeProcess, "deferred"}] = table.Deferred
	stats.Incomplete[LossKey{probeProcess, "environment_unknown"}] = table.EnvironmentUnknown
}

func (e *Engine) symbolStats(stats *Stats) {
	if err := e.symbols.KernelError(); err != nil {
		stats.Degraded["kernel_symbols"] = err.Error()
	}
	symbols := e.symbols.Stats()
	stats.SymbolHits, stats.SymbolMisses = symbols.CacheHits, symbols.CacheMisses
	stats.SymbolEvictions = symbols.TablesEvicted + symbols.FramesEvicted
	stats.SymbolTables = map[string]uint64{
		"built": symbols.TablesBuilt - symbols.TablesRebuilt, "rebuilt": symbols.TablesRebuilt, "pass": symbols.PartialPasses,
	}
	stats.SymbolBytes = uint64(symbols.TableBytes + symbols.FrameBytes + symbols.OtherBytes)
	stats.Unnamed, stats.SymbolErrors = map[string]uint64{}, map[string]uint64{}
	exited, unread := e.subjects.unnamed.Load(), e.subjects.unread.Load()
	stats.Frames = symbols.Named + exited + unread
	for reason, n := range symbols.Unnamed {
		stats.Unnamed[string(reason)] = n
		stats.Frames += n
	}
	stats.Unnamed["process_exited"] += exited
	stats.Unnamed["unreadable"] = unread
	stats.Runtimes = symbols.Runtimes
	for reason, n := range symbols.Errors {
		stats.SymbolErrors[string(reason)] = n
	}
}
