// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

func none() Hooks {
	return Hooks{Level: func(LevelChange) {}}
}

// openBPF counts this process's BPF and perf files.
func openBPF(t *testing.T) int {
	t.Helper()
	return len(bpfFiles(t))
}

// TestNothingToObserve holds that without an observation nothing is attached and no privilege needed.
func TestNothingToObserve(t *testing.T) {
	e, err := Start(t.Context(), Config{RootPath: "/"}, none(), zap.NewNop())
	require.NoError(t, err)
	endLast(t, e)
	require.Zero(t, openBPF(t))
	stats := e.Stats()
	require.Empty(t, stats.Programs)
	require.Zero(t, stats.MapBytes)
	ran := false
	e.Charge(func() { ran = true })
	require.True(t, ran)
	require.NoError(t, e.Shutdown())
	require.NoError(t, e.Shutdown())
}

func TestShutdown(t *testing.T) {
	needRoot(t)
	require.Zero(t, openBPF(t))
	e := begin(t, configuration(time.Millisecond))
	require.Positive(t, openBPF(t))
	time.Sleep(200 * time.Millisecond)
	running := e.Stats()
	e.end()
	require.Zero(t, openBPF(t))
	after := e.Stats()
	require.Len(t, after.Programs, 5)
	require.GreaterOrEqual(t, after.MapBytes, running.MapBytes, "tables came meanwhile")
	require.GreaterOrEqual(t, after.Events["on_cpu"], running.Events["on_cpu"])
	require.Positive(t, after.EngineTime)
}

// TestShutdownTellsTheLastInterval holds that nothing waits for the report that would have come.
func TestShutdownTellsTheLastInterval(t *testing.T) {
	needRoot(t)
	config := configuration(time.Millisecond)
	planOf[*oncpu.Options](config).ReportInterval = 10 * time.Minute
	began := time.Now()
	e := begin(t, config)
	launch(t, testbin.C(t, "testdata/chain.c"), "300", "-").end()
	require.Empty(t, e.of(func(*model.Process) bool { return true }))
	ending := time.Now()
	e.end()
	require.NotEmpty(t, e.of(func(*model.Process) bool { return true }))
	const slew = time.Second // of the wall clock, meanwhile
	for _, p := range e.profiles {
		require.LessOrEqual(t, p.Duration, time.Since(began))
		require.WithinRange(t, p.Start, began.Add(-slew), ending.Add(slew))
		require.WithinRange(t, p.Start.Add(p.Duration), ending.Add(-slew), time.Now().Add(slew))
	}
}

// TestStartThatFails holds that what was begun before the error is given back.
func TestStartThatFails(t *testing.T) {
	needRoot(t)
	config := configuration(time.Millisecond)
	planOf[*oncpu.Options](config).Targets = []process.Selector{{Comm: "("}}
	_, err := Start(t.Context(), config, none(), zap.NewNop())
	require.ErrorContains(t, err, "starting on_cpu: observe::on_cpu::targets[0]: comm: compiling the RE2 pattern: ")
	require.Zero(t, openBPF(t))

	config = configuration(time.Millisecond, process.Selector{Exe: "["})
	_, err = Start(t.Context(), config, none(), zap.NewNop())
	require.ErrorContains(t, err, "preparing the process table: targets::include[0]: exe: ")
	require.Zero(t, openBPF(t))

	config = configuration(time.Millisecond)
	config.RootPath = t.TempDir()
	_, err = Start(t.Context(), config, none(), zap.NewNop())
	require.ErrorContains(t, err, config.RootPath)
	require.Zero(t, openBPF(t))
}

// TestLimit holds that sampling is reduced when the engine costs more than allowed, and that this is reported.
func TestLimit(t *testing.T) {
	needRoot(t)
	if testing.Short() || emulated {
		t.Skip("what the governor decides is the same on every kernel")
	}
	config := configuration(time.Millisecond)
	config.CPUPercent, config.window = 1e-5, time.Second
	var mu sync.Mutex
	var causes []string
	hooks := none()
	hooks.Level = func(change LevelChange) {
		mu.Lock()
		defer mu.Unlock()
		causes = append(causes, change.Cause)
		change.Cause = ""
		require.Equal(t, LevelChange{Kind: "on_cpu", Level: 6, Effect: "samples every 64ms"}, change, "more than a thousand times the limit takes all steps at once")
	}
	var metrics []*model.Metrics
	hooks.Metrics = func(more []*model.Metrics) {
		mu.Lock()
		defer mu.Unlock()
		metrics = append(metrics, more...)
	}
	e, err := Start(t.Context(), config, hooks, zap.NewNop())
	require.NoError(t, err)
	endLast(t, e)
	require.Eventually(t, func() bool { return e.Stats().Levels["on_cpu"] == observe.SamplingLevels }, time.Minute, 100*time.Millisecond)
	require.NoError(t, e.Shutdown())
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, causes, 1)
	require.Regexp(t, `^the receiver and its probes used \d+\.\d\d % of a core, on_cpu \d+\.\d\d %; limits::cpu_percent is 1e-05$`, causes[0])
	require.NotEmpty(t, metrics, "the level is a metric from then on")
	for _, m := range metrics {
		require.Nil(t, m.Process)
		require.Equal(t, []model.Metric{{Descriptor: limitLevelDescriptor, Points: []model.Point{{
			Attributes: []model.Attribute{model.Text("ebpf.limit.kind", "on_cpu")}, Int: observe.SamplingLevels,
		}}}}, m.Metrics)
	}
}

func TestStats(t *testing.T) {
	needRoot(t)
	e := begin(t, configuration(time.Millisecond))
	var stats Stats
	require.Eventually(t, func() bool {
		stats = e.Stats()
		return stats.Known > 0 && stats.InScope == stats.Known-1
	}, time.Minute, 10*time.Millisecond, "all but this one")
	require.Contains(t, stats.Events, "on_cpu")
	for _, name := range []string{"process_fork", "process_exec", "process_exit", "on_cpu.sample"} {
		require.Contains(t, stats.Programs, name)
	}
	require.Positive(t, stats.MapBytes)
	for _, key := range losses {
		require.Contains(t, stats.Lost, key, "reported also where it is 0")
	}
	for _, key := range []LossKey{
		{"on_cpu", "stack_cut"}, {"on_cpu", "stack_fault"}, {"unwind", "no_unwind_table"}, {"unwind", "table_failed"}, {"unwind", "table_incomplete"},
		{"process", "environment_unknown"},
	} {
		require.Contains(t, stats.Incomplete, key, "reported also where it is 0")
	}
	cpus, err := kernel.OnlineCPUs("/sys")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"on_cpu": len(cpus), "process": 3}, stats.Attached)
	require.Equal(t, map[string]int{"on_cpu": 0}, stats.Levels)
}

// losses are reasons for which events are lost.
var losses = []LossKey{
	{"on_cpu", "map_full"}, {"on_cpu", "no_table"}, {"on_cpu", "interval_full"}, {"on_cpu", "undecided"}, {"on_cpu", "too_many"},
	{"process", "ring_full"}, {"process", "scope_full"}, {"process", "undecided"}, {"process", "too_many"},
	{"process", "table_full"}, {"process", "linger_full"},
}

// TestMeasureLosses holds that nothing is lost in a moment.
func TestMeasureLosses(t *testing.T) {
	needRoot(t)
	e := begin(t, configuration(time.Millisecond))
	time.Sleep(700 * time.Millisecond)
	stats := e.Stats()
	for _, key := range losses {
		require.Zero(t, stats.Lost[key], "%v", key)
	}
}
