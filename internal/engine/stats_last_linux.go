// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"maps"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Capabilities that are degraded while something fails: the kernel's own counts
// cannot be read, a CPU cannot be observed, or a limit is not kept to.
const (
	failingCPUs    = "cpus"
	exceededCPU    = "cpu_limit"
	crowdedSymbols = "symbols"
	unreadPrograms = "program_statistics"
	unreadLosses   = "loss_statistics"
	unreadFill     = "map_fill"
)

// lastRead is what the kernel reported last. What cannot be read keeps its value:
// counts that vanish and come again would look like a restart.
type lastRead struct {
	programs map[string]ProgramStats
	// missed is how often programs of a probe could not run.
	missed map[string]uint64
	losses map[LossKey]uint64
	// incomplete are events that were exported, but incomplete.
	incomplete map[LossKey]uint64
	mapBytes   uint64
	// failing is what failed the last time, and why; "" after it has worked again.
	failing map[string]string
	// tables is how full the tables of each observation get.
	tables map[observe.Kind]*highest
	// ring is how full the ring buffer of processes' events gets.
	ring ringFill
}

// readLast brings everything up to date for the last time before it is freed.
// Of a start that failed early there is nothing to read. The caller holds the
// lock.
func (e *Engine) readLast() {
	if e.released || e.tracker == nil || e.subjects == nil {
		return
	}
	e.readPrograms()
	e.readLosses()
	e.last.mapBytes = e.mapBytes()
}

// readPrograms reads the kernel's statistics of every attached program. The
// caller holds the lock.
func (e *Engine) readPrograms() {
	programs := maps.Clone(e.last.programs)
	if programs == nil {
		programs = map[string]ProgramStats{}
	}
	missed := map[string]uint64{}
	var errs []error
	if e.tracker != nil {
		for name, program := range e.tracker.Programs() {
			cost, err := kernel.Cost(program)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			programs[name] = ProgramStats{Runs: cost.Runs, Time: cost.Time}
			missed[probeProcess] += cost.Missed
		}
	}
	maps.Copy(programs, e.past.programs)
	maps.Copy(missed, e.past.missed)
	seen := map[string]bool{} // a kind may run twice
	for _, o := range e.running {
		costs, err := o.Costs()
		errs = append(errs, err)
		if err == nil {
			o.costs = costs
		}
		for _, cost := range o.costs {
			name := string(o.kind) + "." + cost.Program
			if !seen[name] {
				seen[name], programs[name] = true, e.past.programs[name]
			}
			programs[name] = programs[name].plus(cost)
			missed[string(o.kind)] += cost.Missed
		}
	}
	e.last.programs = programs
	err := errors.Join(errs...)
	if err == nil {
		e.last.missed = missed
	}
	e.noteUnread(unreadPrograms, err)
}

// readLosses reads what the programs count themselves. The caller holds the lock.
func (e *Engine) readLosses() {
	lost, incomplete := maps.Clone(e.last.losses), maps.Clone(e.last.incomplete)
	if lost == nil {
		lost, incomplete = map[LossKey]uint64{}, map[LossKey]uint64{}
	}
	// Several kinds may report the same probe, such as the unwinder.
	counts := maps.Clone(e.past.losses)
	maps.Copy(incomplete, e.past.incomplete)
	for key, n := range counts {
		if _, less := e.past.incomplete[key]; !less {
			lost[key] = n
		}
	}
	for _, o := range e.running {
		for _, loss := range o.Losses() {
			key := LossKey{loss.Probe, loss.Reason}
			counts[key] += loss.Count
			if loss.Incomplete {
				incomplete[key] = counts[key]
			} else {
				lost[key] = counts[key]
			}
		}
	}
	for probe, count := range e.last.missed {
		lost[LossKey{probe, "program_busy"}] = count
	}
	shared, err := e.tracker.Losses()
	if err == nil {
		lost[LossKey{probeProcess, "ring_full"}] = shared.RingFull
		lost[LossKey{probeProcess, "scope_full"}] = shared.ScopeFull
	}
	incomplete[LossKey{"unwind", "not_code"}] = e.subjects.notCode.Load()
	if e.unwinding != nil {
		incomplete[LossKey{"unwind", "table_failed"}] = e.unwinding.failed.Load()
		incomplete[LossKey{"unwind", "table_incomplete"}] = e.unwinding.incomplete.Load()
		incomplete[LossKey{"unwind", "mappings_full"}] = e.unwinding.skipped.Load()
		incomplete[LossKey{"unwind", "rules_full"}] = e.unwinding.store.Stats().RulesFull
	}
	lost[LossKey{probeProcess, "undecided"}] = e.subjects.undecided.Load()
	lost[LossKey{probeProcess, "too_many"}] = e.subjects.crowded.Load()
	e.last.losses, e.last.incomplete = lost, incomplete
	e.noteUnread(unreadLosses, err)
}

// openRing begins to watch how full the ring of processes' events gets.
func (e *Engine) openRing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, shared := range e.tracker.SharedMaps() {
		if shared.Type() == ebpf.RingBuf {
			e.noteUnread(unreadFill, e.last.ring.open(shared))
		}
	}
}

// recordFill records how full the tables of an observation are. It is called after an observation has been drained.
func (e *Engine) recordFill(o *running, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last.tables == nil {
		e.last.tables = map[observe.Kind]*highest{}
	}
	if e.last.tables[o.kind] == nil {
		e.last.tables[o.kind] = &highest{}
	}
	e.last.tables[o.kind].add(now, o.Fill())
}

// sampleRing samples how full the ring buffer is. It is called when it is fullest: just before it is read.
func (e *Engine) sampleRing(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last.ring.sample(now)
}

// mapFill is how full the maps are, from 0 to 1, by name. The caller holds the
// lock.
func (e *Engine) mapFill() map[string]float64 {
	fill := map[string]float64{
		"scope":          float64(e.subjects.decided()) / trackedProcesses,
		"process_events": e.last.ring.highest.value(),
	}
	if e.unwinding != nil {
		tables := e.unwinding.store.Stats()
		fill["unwind"] = float64(tables.TableBytes) / float64(e.config.MemoryBytes/unwindShare)
		fill["unwind_rules"] = tables.RulesFill
	}
	for kind, highest := range e.last.tables {
		fill[string(kind)] = highest.value()
	}
	return fill
}

// decided is how many processes the kernel has a decision about, this
// one and the idle task included. The kernel may know more: those that were asked
// about while the table of processes was full.
func (s *subjects) decided() int {
	const always = 2
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byProcess) + always
}

// noteUnread remembers whether a reading of the kernel's own counts has failed.
func (e *Engine) noteUnread(what string, err error) {
	e.noteFailing(what, "The receiver's own statistics keep their last values", err)
}

// noteFailing remembers whether something has failed the last time. The first
// failure is logged with its consequence. The caller holds the lock.
func (e *Engine) noteFailing(what, consequence string, err error) {
	_, before := e.last.failing[what]
	switch {
	case err == nil && before:
		e.last.failing[what] = ""
	case err != nil:
		if !before {
			e.logger.Warn(consequence, zap.String("capability", what), zap.Error(err))
		}
		if e.last.failing == nil {
			e.last.failing = map[string]string{}
		}
		e.last.failing[what] = consequence + ": " + err.Error()
	}
}

// degradedNow is what is missing since the start, and what failed the last time. The
// caller holds the lock.
func (e *Engine) degradedNow() map[string]string {
	e.degradedMu.Lock()
	degraded := maps.Clone(e.degraded)
	e.degradedMu.Unlock()
	for what, why := range e.last.failing {
		if why != "" {
			degraded[what] = why
		}
	}
	return degraded
}
