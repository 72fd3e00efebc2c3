// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

// costly is an observation that returns its cost, or an error.
type costly struct {
	observe.Observation
	runs uint64
	err  error
}

func (c *costly) Costs() ([]observe.ProgramCost, error) {
	if c.err != nil {
		return nil, c.err
	}
	return []observe.ProgramCost{{Program: "sample", Runs: c.runs, Time: time.Duration(c.runs), Missed: c.runs / 3}, {Program: "other", Missed: 2}}, nil
}

func (*costly) HeldBytes() uint64  { return 0 }
func (*costly) Levels() int        { return observe.SamplingLevels }
func (*costly) SetLevel(int) error { return nil }
func (*costly) Effect() string     { return "" }

// TestCostsThatCannotBeRead holds that they keep their last value, and that this is reported as long as it lasts.
func TestCostsThatCannotBeRead(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	o := &costly{runs: 5}
	e := &Engine{
		logger: zap.New(core), degraded: map[string]string{"cpu_hotplug": "why"},
		running: []*running{{Observation: o, kind: oncpu.Name}}, spent: map[observe.Kind]*meter{oncpu.Name: {}},
	}
	require.Equal(t, costOfSampling(5), e.cost())
	require.Equal(t, map[string]string{"cpu_hotplug": "why"}, e.degradedNow())
	before := e.last.programs

	o.runs, o.err = 9, errors.New("not now")
	for range 2 {
		require.Equal(t, costOfSampling(5), e.cost(), "the governor must not see the cost fall")
	}
	require.Equal(t, map[string]ProgramStats{"on_cpu.sample": {Runs: 5, Time: 5}, "on_cpu.other": {}}, e.last.programs)
	require.Equal(t, map[string]uint64{"on_cpu": 1 + 2}, e.last.missed)
	require.Equal(t, map[string]string{
		"cpu_hotplug":        "why",
		"program_statistics": "The receiver's own statistics keep their last values: not now",
	}, e.degradedNow())
	require.Equal(t, 1, logs.Len(), "logged once")
	require.Equal(t, map[string]any{"capability": "program_statistics", "error": "not now"}, logs.All()[0].ContextMap())

	o.err = nil
	require.Equal(t, costOfSampling(9), e.cost())
	require.Equal(t, map[string]string{"cpu_hotplug": "why"}, e.degradedNow())
	require.Equal(t, map[string]uint64{"on_cpu": 3 + 2}, e.last.missed)
	require.Equal(t, map[string]ProgramStats{"on_cpu.sample": {Runs: 5, Time: 5}, "on_cpu.other": {}}, before, "what was returned stays as it was")
}

// TestCostsOfKinds holds that what steps of each kind reduce is measured apart from the rest, in programs and in the engine: of what is
// drained of network nothing, and of its programs no more than what is made of captured requests.
func TestCostsOfKinds(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		now, err := kernel.ThreadCPUTime()
		require.NoError(t, err)
		return now
	}
	var burnt, around time.Duration // by the work itself, and with all that measures it
	burn := func() {
		before := used()
		for used()-before < 10*time.Millisecond { //nolint:revive // work of its own
		}
		burnt += used() - before
	}
	measured := func(charge func()) (least, most time.Duration) {
		burnt = 0
		before := used()
		charge()
		around = used() - before
		return burnt, around
	}
	e := &Engine{logger: zap.NewNop(), degraded: map[string]string{}, spent: newSpent(), running: []*running{
		{Observation: &costly{runs: 5}, kind: oncpu.Name},
		{Observation: &costly{runs: 3e6}, kind: network.Name},
	}}
	var least, most, all time.Duration
	e.work.run(func() {
		least, most = measured(func() { e.charge(e.running[0], burn) })
		all, _ = measured(func() { e.charge(e.running[1], burn) })
	})
	got := e.cost()
	require.GreaterOrEqual(t, got.running, least+all+5+3e6)
	require.GreaterOrEqual(t, got.kinds[oncpu.Name].cpu, least+5)
	require.LessOrEqual(t, got.kinds[oncpu.Name].cpu, most+5)
	require.Equal(t, part{levels: observe.SamplingLevels}, got.kinds[network.Name])
	require.Equal(t, part{}, got.kinds[offcpu.Name])
	more, most := measured(func() { e.chargeReducible(network.Name, burn) })
	require.GreaterOrEqual(t, e.cost().kinds[network.Name].cpu, more+3e6)
	require.LessOrEqual(t, e.cost().kinds[network.Name].cpu, most+3e6)
	require.GreaterOrEqual(t, e.cost().running, least+all+more+5+3e6)
}

// TestStatsOutliveTheShutdown holds that the last counts are taken when the programs go, even if they were never read before.
func TestStatsOutliveTheShutdown(t *testing.T) {
	e := begin(t, configuration(time.Millisecond))
	for busy := time.Now(); time.Since(busy) < 200*time.Millisecond; {
	} // an idle CPU is not sampled
	e.end()
	stats := e.Stats()
	require.Positive(t, stats.Programs["on_cpu.sample"].Runs)
	require.Contains(t, stats.Programs, "process_exit")
	require.Contains(t, stats.Lost, LossKey{"process", "ring_full"})
	require.Contains(t, stats.Lost, LossKey{"on_cpu", "map_full"})
	require.Contains(t, stats.Lost, LossKey{"on_cpu", "program_busy"})
	require.Contains(t, stats.Lost, LossKey{"process", "program_busy"})
	require.Positive(t, stats.MapBytes)
	require.NotContains(t, stats.Degraded, "program_statistics")
	require.NotContains(t, stats.Degraded, "loss_statistics")
}

// TestLossesThatCannotBeRead closes the map that they are in.
func TestLossesThatCannotBeRead(t *testing.T) {
	e := begin(t, configuration(time.Second))
	e.end()
	before := e.Stats()
	require.Contains(t, before.Lost, LossKey{"process", "ring_full"})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readLosses() // the maps are gone
	require.Equal(t, before.Lost[LossKey{"process", "ring_full"}], e.last.losses[LossKey{"process", "ring_full"}])
	require.Contains(t, e.last.losses, LossKey{"process", "scope_full"})
	require.Contains(t, e.degradedNow()["loss_statistics"], "reading lost process events: ")
}
