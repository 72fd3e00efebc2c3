// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadatatest"
)

// fakeEngine reports the metrics that a test sets.
type fakeEngine struct{ stats engine.Stats }

func (*fakeEngine) Shutdown() error                                   { return nil }
func (*fakeEngine) Windows() *engine.Windows                          { return nil }
func (*fakeEngine) RestoreSilence(string, model.ProcessID, time.Time) {}
func (*fakeEngine) Resume([]task.Request) []task.Request              { return nil }
func (e *fakeEngine) Stats() engine.Stats                             { return e.stats }
func (*fakeEngine) Charge(work func())                                { work() }
func (*fakeEngine) Start(task.Spec) (task.Observation, error) {
	return nil, errors.New("it is none")
}

func ints(value int64, attributes ...string) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Value: value, Attributes: set(attributes)}
}

func floats(value float64, attributes ...string) metricdata.DataPoint[float64] {
	return metricdata.DataPoint[float64]{Value: value, Attributes: set(attributes)}
}

// set is the attributes of a point of the receiver of the tests.
func set(keysAndValues []string) attribute.Set {
	list := []attribute.KeyValue{attribute.String("receiver", "ebpf/tested")}
	for i := 0; i < len(keysAndValues); i += 2 {
		list = append(list, attribute.String(keysAndValues[i], keysAndValues[i+1]))
	}
	return attribute.NewSet(list...)
}

type (
	intPoints   = []metricdata.DataPoint[int64]
	floatPoints = []metricdata.DataPoint[float64]
)

func TestSelfTelemetry(t *testing.T) {
	tt := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tt.Shutdown(context.Background())) })
	settings := metadatatest.NewSettings(tt)
	settings.ID = component.NewIDWithName(metadata.Type, "tested")
	builder, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	require.NoError(t, err)
	r := &ebpfReceiver{settings: settings, telemetry: builder, forget: func() {}, engine: &fakeEngine{stats: engine.Stats{
		Events:       map[string]uint64{"on_cpu": 1000},
		Lost:         map[engine.LossKey]uint64{{Probe: "on_cpu", Reason: "map_full"}: 3, {Probe: "process", Reason: "ring_full"}: 0},
		Incomplete:   map[engine.LossKey]uint64{{Probe: "on_cpu", Reason: "stack_cut"}: 9},
		Attached:     map[string]int{"on_cpu": 2, "process": 3},
		Frames:       500,
		Unnamed:      map[string]uint64{"no_symbol": 7},
		SymbolHits:   90,
		SymbolMisses: 10, SymbolEvictions: 4,
		SymbolTables: map[string]uint64{"built": 12, "pass": 2},
		UnwindHits:   70, UnwindMisses: 8, UnwindEvictions: 5,
		SymbolErrors: map[string]uint64{"not_elf": 2},
		Runtimes:     map[model.Runtime]int{{Language: "jvm", Names: "none"}: 3, {Language: "v8js", Names: "perf_map"}: 1},
		MapBytes:     4096, SymbolBytes: 8192, SampleBytes: 2048, ProcessBytes: 1024, BuildingBytes: 512,
		MapFill:    map[string]float64{"scope": 0.25},
		Unmerged:   map[string]uint64{"on_cpu": 11},
		Programs:   map[string]engine.ProgramStats{"on_cpu.sample": {Runs: 1003, Time: 3 * time.Millisecond}},
		EngineTime: 1500 * time.Millisecond,
		Known:      40, InScope: 30,
		ProcessErrors:      map[string]uint64{"permission": 5},
		SelectorsUnmatched: 1,
		Degraded:           map[string]string{"cpu_hotplug": "why"},
		Levels:             map[string]int{"on_cpu": 2, "network": 0},
	}}}
	profiles, metrics := newSink("profiles", settings.Logger, 1, 1), newSink("metrics", settings.Logger, 1, 1)
	profiles.refused.Add(6)
	profiles.queue.dropped.Add(8)
	metrics.queue.dropped.Add(9)
	logs := newSink(signalLogs, settings.Logger, 1, 1)
	logs.queue.records.Add(12)
	r.sinks = []*sink{profiles, metrics, logs}
	require.NoError(t, r.observeSelf())

	plain := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualEbpfEvents(t, tt, intPoints{ints(1000, "probe", "on_cpu")}, plain)
	metadatatest.AssertEqualEbpfEventsLost(t, tt, intPoints{
		ints(3, "probe", "on_cpu", "reason", "map_full", "outcome", "lost"),
		ints(0, "probe", "process", "reason", "ring_full", "outcome", "lost"),
		ints(9, "probe", "on_cpu", "reason", "stack_cut", "outcome", "incomplete"),
	}, plain)
	metadatatest.AssertEqualEbpfEventsUnmerged(t, tt, intPoints{ints(11, "probe", "on_cpu")}, plain)
	metadatatest.AssertEqualEbpfFrames(t, tt, intPoints{ints(500)}, plain)
	metadatatest.AssertEqualEbpfFramesUnnamed(t, tt, intPoints{ints(7, "reason", "no_symbol")}, plain)
	metadatatest.AssertEqualEbpfSymbolLookups(t, tt, intPoints{ints(90, "outcome", "hit"), ints(10, "outcome", "miss")}, plain)
	metadatatest.AssertEqualEbpfSymbolEvictions(t, tt, intPoints{ints(4)}, plain)
	metadatatest.AssertEqualEbpfSymbolTables(t, tt, intPoints{ints(12, "outcome", "built"), ints(2, "outcome", "pass")}, plain)
	metadatatest.AssertEqualEbpfUnwindLookups(t, tt, intPoints{ints(70, "outcome", "hit"), ints(8, "outcome", "miss")}, plain)
	metadatatest.AssertEqualEbpfUnwindEvictions(t, tt, intPoints{ints(5)}, plain)
	metadatatest.AssertEqualEbpfSymbolErrors(t, tt, intPoints{ints(2, "reason", "not_elf")}, plain)
	metadatatest.AssertEqualEbpfRuntimes(t, tt, intPoints{
		ints(3, "runtime", "jvm", "names", "none"), ints(1, "runtime", "v8js", "names", "perf_map"),
	}, plain)
	metadatatest.AssertEqualEbpfMemory(t, tt, intPoints{
		ints(4096, "component", "maps"), ints(8192, "component", "symbols"), ints(2048, "component", "samples"), ints(1024, "component", "processes"), ints(512, "component", "unwind"),
	}, plain)
	metadatatest.AssertEqualEbpfMapFill(t, tt, floatPoints{floats(0.25, "map", "scope")}, plain)
	metadatatest.AssertEqualEbpfProbeCPUTime(t, tt, floatPoints{floats(0.003, "program", "on_cpu.sample")}, plain)
	metadatatest.AssertEqualEbpfProbeRuns(t, tt, intPoints{ints(1003, "program", "on_cpu.sample")}, plain)
	metadatatest.AssertEqualEbpfEngineCPUTime(t, tt, floatPoints{floats(1.5)}, plain)
	metadatatest.AssertEqualEbpfProbesAttached(t, tt, intPoints{ints(2, "probe", "on_cpu"), ints(3, "probe", "process")}, plain)
	metadatatest.AssertEqualEbpfProcesses(t, tt, intPoints{ints(40, "scope", "known"), ints(30, "scope", "in_scope")}, plain)
	metadatatest.AssertEqualEbpfProcessErrors(t, tt, intPoints{ints(5, "reason", "permission")}, plain)
	metadatatest.AssertEqualEbpfSelectorsUnmatched(t, tt, intPoints{ints(1)}, plain)
	metadatatest.AssertEqualEbpfDegraded(t, tt, intPoints{ints(1, "capability", "cpu_hotplug")}, plain)
	metadatatest.AssertEqualEbpfLimitLevel(t, tt, intPoints{ints(2, "probe", "on_cpu"), ints(0, "probe", "network")}, plain)
	metadatatest.AssertEqualEbpfBatchesDropped(t, tt, intPoints{
		ints(6, "signal", "profiles", "reason", "refused"), ints(8, "signal", "profiles", "reason", "buffer_full"),
		ints(0, "signal", "metrics", "reason", "refused"), ints(9, "signal", "metrics", "reason", "buffer_full"),
		ints(0, "signal", "logs", "reason", "refused"), ints(0, "signal", "logs", "reason", "buffer_full"),
	}, plain)
	metadatatest.AssertEqualEbpfRecordsDropped(t, tt, intPoints{ints(12, "signal", "logs")}, plain)
	builder.Shutdown()
}

// TestIdleTelemetry checks that a receiver that could not start is seen in its metrics.
func TestIdleTelemetry(t *testing.T) {
	tt := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tt.Shutdown(context.Background())) })
	settings := metadatatest.NewSettings(tt)
	settings.ID = component.NewIDWithName(metadata.Type, "tested")
	builder, err := metadata.NewTelemetryBuilder(settings.TelemetrySettings)
	require.NoError(t, err)
	r := &ebpfReceiver{settings: settings, telemetry: builder, forget: func() {}, engine: idle{capability: degradedStart, why: errors.New("why")}}
	require.NoError(t, r.observeSelf())
	plain := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualEbpfDegraded(t, tt, intPoints{ints(1, "capability", "start")}, plain)
	metadatatest.AssertEqualEbpfProbesAttached(t, tt, intPoints{ints(0, "probe", "on_cpu"), ints(0, "probe", "process")}, plain)
	require.NoError(t, r.Shutdown(t.Context()))
}
