// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// observeSelf registers the receiver's own metrics, all of which are read from
// the engine when they are collected.
func (r *ebpfReceiver) observeSelf() error {
	t := r.telemetry
	// Several receivers of one Collector have the same instruments.
	own := attribute.String("receiver", r.settings.ID.String())
	read := r.readings()
	count := func(observe func(engine.Stats, observeInt)) metric.Int64Callback {
		return func(_ context.Context, observer metric.Int64Observer) error {
			observe(read(), func(value int64, attributes ...attribute.KeyValue) {
				observer.Observe(value, metric.WithAttributes(append(attributes, own)...))
			})
			return nil
		}
	}
	number := func(observe func(engine.Stats, observeFloat)) metric.Float64Callback {
		return func(_ context.Context, observer metric.Float64Observer) error {
			observe(read(), func(value float64, attributes ...attribute.KeyValue) {
				observer.Observe(value, metric.WithAttributes(append(attributes, own)...))
			})
			return nil
		}
	}
	return errors.Join(
		t.RegisterEbpfEventsCallback(count(events)),
		t.RegisterEbpfEventsLostCallback(count(lost)),
		t.RegisterEbpfEventsUnmergedCallback(count(unmerged)),
		t.RegisterEbpfFramesCallback(count(frames)),
		t.RegisterEbpfFramesUnnamedCallback(count(unnamed)),
		t.RegisterEbpfSymbolLookupsCallback(count(symbolLookups)),
		t.RegisterEbpfSymbolEvictionsCallback(count(symbolEvictions)),
		t.RegisterEbpfSymbolTablesCallback(count(symbolTables)),
		t.RegisterEbpfSymbolErrorsCallback(count(symbolErrors)),
		t.RegisterEbpfUnwindLookupsCallback(count(unwindLookups)),
		t.RegisterEbpfUnwindEvictionsCallback(count(unwindEvictions)),
		t.RegisterEbpfRuntimesCallback(count(runtimes)),
		t.RegisterEbpfMemoryCallback(count(memoryHeld)),
		t.RegisterEbpfMapFillCallback(number(mapFill)),
		t.RegisterEbpfProbeCPUTimeCallback(number(probeTime)),
		t.RegisterEbpfProbeRunsCallback(count(probeRuns)),
		t.RegisterEbpfEngineCPUTimeCallback(number(engineTime)),
		t.RegisterEbpfProbesAttachedCallback(count(probesAttached)),
		t.RegisterEbpfProcessesCallback(count(processes)),
		t.RegisterEbpfProcessErrorsCallback(count(processErrors)),
		t.RegisterEbpfSelectorsUnmatchedCallback(count(selectorsUnmatched)),
		t.RegisterEbpfDegradedCallback(count(degraded)),
		t.RegisterEbpfSeriesRetiredCallback(count(seriesRetired)),
		t.RegisterEbpfLimitLevelCallback(count(limitLevel)),
		t.RegisterEbpfBatchesDroppedCallback(count(r.batchesDropped)),
		t.RegisterEbpfRecordsDroppedCallback(count(r.recordsDropped)),
		t.RegisterEbpfPolicyTriggersCallback(count(policyTriggers)),
		t.RegisterEbpfTasksCallback(count(r.tasksNow)),
		t.RegisterEbpfTasksRefusedCallback(count(r.tasksRefused)),
	)
}

// sameReading is how long a reading is valid: all instruments are collected one after
// the other and report the same moment.
const sameReading = 100 * time.Millisecond

// readings returns what reads the engine's statistics, on the engine's account.
func (r *ebpfReceiver) readings() func() engine.Stats {
	var mu sync.Mutex
	var last engine.Stats
	var at time.Time
	return func() engine.Stats {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(at) > sameReading {
			e := r.running()
			e.Charge(func() { last = e.Stats() })
			at = now
		}
		return last
	}
}

type (
	observeInt   = func(int64, ...attribute.KeyValue)
	observeFloat = func(float64, ...attribute.KeyValue)
)

func policyTriggers(s engine.Stats, observe observeInt) { observe(int64(s.Triggers)) }

func events(s engine.Stats, observe observeInt) {
	for probe, n := range s.Events {
		observe(int64(n), attribute.String("probe", probe))
	}
}

func lost(s engine.Stats, observe observeInt) {
	for outcome, counts := range map[string]map[engine.LossKey]uint64{"lost": s.Lost, "incomplete": s.Incomplete} {
		for key, n := range counts {
			observe(int64(n), attribute.String("probe", key.Probe), attribute.String("reason", key.Reason), attribute.String("outcome", outcome))
		}
	}
}

func unmerged(s engine.Stats, observe observeInt) {
	for probe, n := range s.Unmerged {
		observe(int64(n), attribute.String("probe", probe))
	}
}

func frames(s engine.Stats, observe observeInt) { observe(int64(s.Frames)) }

func unnamed(s engine.Stats, observe observeInt) { byReason(s.Unnamed, observe) }

func symbolLookups(s engine.Stats, observe observeInt) {
	observe(int64(s.SymbolHits), attribute.String("outcome", "hit"))
	observe(int64(s.SymbolMisses), attribute.String("outcome", "miss"))
}

func symbolEvictions(s engine.Stats, observe observeInt) { observe(int64(s.SymbolEvictions)) }

func symbolTables(s engine.Stats, observe observeInt) {
	for outcome, n := range s.SymbolTables {
		observe(int64(n), attribute.String("outcome", outcome))
	}
}

func unwindLookups(s engine.Stats, observe observeInt) {
	observe(int64(s.UnwindHits), attribute.String("outcome", "hit"))
	observe(int64(s.UnwindMisses), attribute.String("outcome", "miss"))
}

func unwindEvictions(s engine.Stats, observe observeInt) { observe(int64(s.UnwindEvictions)) }

func symbolErrors(s engine.Stats, observe observeInt) { byReason(s.SymbolErrors, observe) }

func runtimes(s engine.Stats, observe observeInt) {
	for key, n := range s.Runtimes {
		observe(int64(n), attribute.String("runtime", string(key.Language)), attribute.String("names", string(key.Names)))
	}
}

func memoryHeld(s engine.Stats, observe observeInt) {
	observe(int64(s.MapBytes), attribute.String("component", "maps"))
	observe(int64(s.SymbolBytes), attribute.String("component", "symbols"))
	observe(int64(s.SampleBytes), attribute.String("component", "samples"))
	observe(int64(s.ProcessBytes), attribute.String("component", "processes"))
	observe(int64(s.BuildingBytes), attribute.String("component", "unwind"))
}

func mapFill(s engine.Stats, observe observeFloat) {
	for name, share := range s.MapFill {
		observe(share, attribute.String("map", name))
	}
}

func probeTime(s engine.Stats, observe observeFloat) {
	for name, p := range s.Programs {
		observe(p.Time.Seconds(), attribute.String("program", name))
	}
}

func probeRuns(s engine.Stats, observe observeInt) {
	for name, p := range s.Programs {
		observe(int64(p.Runs), attribute.String("program", name))
	}
}

func engineTime(s engine.Stats, observe observeFloat) { observe(s.EngineTime.Seconds()) }

func probesAttached(s engine.Stats, observe observeInt) {
	for probe, n := range s.Attached {
		observe(int64(n), attribute.String("probe", probe))
	}
}

func processes(s engine.Stats, observe observeInt) {
	observe(int64(s.Known), attribute.String("scope", "known"))
	observe(int64(s.InScope), attribute.String("scope", "in_scope"))
}

func processErrors(s engine.Stats, observe observeInt) { byReason(s.ProcessErrors, observe) }

func selectorsUnmatched(s engine.Stats, observe observeInt) { observe(int64(s.SelectorsUnmatched)) }

func seriesRetired(s engine.Stats, observe observeInt) { observe(int64(s.SeriesRetired)) }

func degraded(s engine.Stats, observe observeInt) {
	for capability := range s.Degraded {
		observe(1, attribute.String("capability", capability))
	}
}

func limitLevel(s engine.Stats, observe observeInt) {
	for kind, level := range s.Levels {
		observe(int64(level), attribute.String("probe", kind))
	}
}

func (r *ebpfReceiver) batchesDropped(_ engine.Stats, observe observeInt) {
	for _, s := range r.sinks {
		signal := attribute.String("signal", s.signal)
		observe(int64(s.refused.Load()), signal, attribute.String("reason", droppedRefused))
		observe(int64(s.queue.dropped.Load()), signal, attribute.String("reason", droppedFull))
	}
}

// recordsDropped are those of signals whose records are dropped by fair shares.
func (r *ebpfReceiver) recordsDropped(_ engine.Stats, observe observeInt) {
	for _, s := range r.sinks {
		if s.signal == signalLogs || s.signal == signalTraces {
			observe(int64(s.queue.records.Load()), attribute.String("signal", s.signal))
		}
	}
}

func byReason(counts map[string]uint64, observe observeInt) {
	for reason, n := range counts {
		observe(int64(n), attribute.String("reason", reason))
	}
}
