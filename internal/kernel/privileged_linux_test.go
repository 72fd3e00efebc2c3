// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
}

// counting is a program for perf events that does nothing but run.
func counting() *ebpf.CollectionSpec {
	return &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"count": {
		Name: "count", Type: ebpf.PerfEvent, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}}}
}

func TestLoadNamesWhatItLoads(t *testing.T) {
	needRoot(t)
	bad := counting()
	bad.Programs["count"].Instructions = asm.Instructions{asm.LoadMem(asm.R0, asm.R5, 0, asm.DWord), asm.Return()}
	_, err := NewLoader().Load("the counting program", bad, nil)
	require.ErrorContains(t, err, "loading the counting program: ")
	var verifier *ebpf.VerifierError
	require.ErrorAs(t, err, &verifier)
}

func TestLoadSharesMaps(t *testing.T) {
	needRoot(t)
	array := func(entries uint32) *ebpf.MapSpec {
		return &ebpf.MapSpec{Name: "shared", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: entries}
	}
	m, err := ebpf.NewMap(array(7))
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Put(uint32(6), uint64(42)))

	spec := &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"shared": array(1), "own": array(2)}}
	coll, err := NewLoader().Load("maps", spec, map[string]*ebpf.Map{"shared": m, "not wanted": m})
	require.NoError(t, err)
	defer coll.Close()
	var value uint64
	require.NoError(t, coll.Maps["shared"].Lookup(uint32(6), &value))
	require.Equal(t, uint64(42), value)
	require.Equal(t, uint32(2), coll.Maps["own"].MaxEntries())
}

// TestPerfEventRuns checks that an event fires on a busy CPU, at most once each period, and the kernel's statistics of the program.
func TestPerfEventRuns(t *testing.T) {
	cost, periods := perfEventRuns(t)
	require.Positive(t, cost.Runs)
	require.LessOrEqual(t, float64(cost.Runs), periods+1)
	require.Positive(t, cost.Time)
}

// TestMeasurePerfEventRuns checks that the event misses few periods. A timer misses one while its CPU stands still.
func TestMeasurePerfEventRuns(t *testing.T) {
	if guest.Running() {
		t.Skip("an emulated CPU stands still now and then, and its timer with it")
	}
	cost, periods := perfEventRuns(t)
	require.GreaterOrEqual(t, float64(cost.Runs), 0.9*periods)
}

// perfEventRuns keeps a CPU busy while an event fires there. It returns the statistics of its program and how many periods have passed.
func perfEventRuns(t *testing.T) (ProgramCost, float64) {
	t.Helper()
	needRoot(t)
	stats, err := EnableRunStats()
	require.NoError(t, err)
	defer stats.Close()
	coll, err := NewLoader().Load("the counting program", counting(), nil)
	require.NoError(t, err)
	defer coll.Close()
	program := coll.Programs["count"]

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cpus, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &cpus))
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &cpus)) }()
	one.Set(0)
	require.NoError(t, unix.SchedSetaffinity(0, &one))

	const period = time.Millisecond
	start := time.Now()
	event, err := OpenPerfEvent(CPUClock, 0, period, program)
	require.NoError(t, err)
	for time.Since(start) < 300*time.Millisecond { //nolint:revive // the CPU must be busy
	}
	require.NoError(t, event.Close())
	elapsed := time.Since(start)
	cost, err := Cost(program)
	require.NoError(t, err)

	time.Sleep(20 * time.Millisecond)
	last, err := Cost(program)
	require.NoError(t, err)
	require.Equal(t, cost.Runs, last.Runs, "a closed event runs nothing")
	return cost, float64(elapsed) / float64(period)
}

func TestPerfEventErrors(t *testing.T) {
	needRoot(t)
	coll, err := NewLoader().Load("the counting program", counting(), nil)
	require.NoError(t, err)
	defer coll.Close()
	_, err = OpenPerfEvent(CPUClock, maxCPUs-1, time.Millisecond, coll.Programs["count"])
	require.ErrorContains(t, err, "opening a perf event on CPU 8191: ")
	require.NotErrorIs(t, err, unix.EPERM)

	if event, err := OpenPerfEvent(Cycles, 0, time.Millisecond, coll.Programs["count"]); err != nil {
		absent := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)
		require.True(t, absent, "a machine without the counter says so: %v", err)
	} else {
		require.NoError(t, event.Close())
	}
}
