// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// swarmSize is 10,000 processes in 30 s where that was asked for, and an eighth of it in an eighth of the time otherwise.
func swarmSize() int {
	switch {
	case inLongForm():
		return 10_000
	case emulated:
		return 100
	case testing.Short():
		return 400
	}
	return 1_250
}

// held is what an engine remembers of processes, in user space and in the kernel.
func held(t *testing.T, e *observed) (subjects, endings, scopes int) {
	t.Helper()
	e.subjects.mu.Lock()
	defer e.subjects.mu.Unlock()
	decided, err := e.tracker.Decided()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(e.subjects.known), len(e.subjects.byProcess))
	return len(e.subjects.known), len(e.subjects.ending), len(decided)
}

// accounted holds that all that was seen was delivered or counted as lost, and that what was delivered without a name was
// counted as such.
func accounted(t *testing.T, stats Stats, delivered sum, profiles []*model.Profile) {
	t.Helper()
	lost := uint64(0)
	for key, n := range stats.Lost {
		if key.Probe == string(oncpu.Name) {
			lost += n
		}
	}
	require.Equal(t, stats.Events[string(oncpu.Name)], uint64(delivered.samples)+lost, "everybody is in scope; lost %v", stats.Lost)
	require.LessOrEqual(t, uint64(delivered.errors[model.StackNoMappings]), stats.Incomplete[LossKey{string(oncpu.Name), "process_exited"}])
	unnamed, nameless := uint64(0), uint64(0)
	for _, n := range stats.Unnamed {
		unnamed += n
	}
	for _, p := range profiles {
		for _, one := range p.Samples {
			for _, frame := range one.Frames {
				if len(frame.Lines) == 0 {
					nameless++
				}
			}
		}
	}
	t.Logf("%d frames without a name, %d counted", nameless, unnamed)
	require.LessOrEqual(t, nameless, unnamed)
	require.LessOrEqual(t, unnamed, stats.Frames)
}

// TestSwarm holds that processes that live for some milliseconds leave nothing behind, in scope or not, and that what could not
// be named of them is counted.
func TestSwarm(t *testing.T) {
	needRoot(t)
	swarm := testbin.C(t, "testdata/swarm.c")
	size := swarmSize()
	for name, c := range map[string]struct {
		include []process.Selector
		how     []string
	}{
		"in scope":           {},
		"in scope, executed": {how: []string{"exec"}},
		"out of scope":       {include: []process.Selector{{Exe: "/absent"}}},
	} {
		t.Run(name, func(t *testing.T) {
			config := configuration(time.Millisecond, c.include...)
			config.ScanInterval = 2 * time.Second
			e := begin(t, config)
			time.Sleep(300 * time.Millisecond) // the first scan
			subjects, _, scopes := held(t, e)
			known, goroutines := e.Stats().Known, runtime.NumGoroutine()
			size := size
			if c.how != nil && !inLongForm() {
				size /= 2 // to load a program takes longer than to copy one
			}
			p := launch(t, swarm, append([]string{strconv.Itoa(size), "1500", "500"}, c.how...)...)
			require.Empty(t, p.end())
			// Two drains; of what was met in the middle of its exit, the time that it lingers and a scan.
			const room = 50
			require.Eventually(t, func() bool {
				now, endings, decided := held(t, e)
				t.Logf("%d subjects, %d of them ending, %d scopes, %d processes", now, endings, decided, e.Stats().Known)
				return now < subjects+room && decided < scopes+room && e.Stats().Known < known+room
			}, time.Minute, time.Second, "began with %d subjects, %d scopes, %d processes", subjects, scopes, known)
			// Some still read what processes have mapped.
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+4 }, time.Minute, 100*time.Millisecond)
			e.end()
			stats := e.Stats()
			profiles := e.of(func(*model.Process) bool { return true })
			got := add(profiles)
			swarmed := add(e.of(runs(swarm)))
			t.Logf("%d processes in %s: %s, %s named; lost %v; unnamed %v of %d frames", size, p.took, got, swarmed, stats.Lost, stats.Unnamed, stats.Frames)
			require.Zero(t, stats.Lost[LossKey{"process", "too_many"}])
			require.Zero(t, stats.Lost[LossKey{"process", "scope_full"}])
			if c.include != nil {
				require.Zero(t, got.samples)
				return
			}
			require.Positive(t, swarmed.samples)
			accounted(t, stats, got, profiles)
			for _, profile := range profiles {
				require.NotEmpty(t, profile.Process.ServiceName)
				require.NotEmpty(t, profile.Process.ExecutableName(), "%+v", profile.Process)
			}
		})
	}
}
