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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// swarmSize is 10,000 processes in 30 s where that was asked for, and a fifth of it in a fifth of the time otherwise.
func swarmSize() int {
	switch {
	case inLongForm():
		return 10_000
	case emulated:
		return 100
	case testing.Short():
		return 400
	}
	return 2_000
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

// TestSwarm holds that processes that live for some milliseconds leave nothing behind, in scope or not.
func TestSwarm(t *testing.T) {
	needRoot(t)
	swarm := testbin.C(t, "testdata/swarm.c")
	size := swarmSize()
	for name, include := range map[string][]process.Selector{
		"in scope":     nil,
		"out of scope": {{Exe: "/nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := configuration(time.Millisecond, include...)
			config.ScanInterval = 2 * time.Second
			e := begin(t, config)
			time.Sleep(300 * time.Millisecond) // the first scan
			subjects, _, scopes := held(t, e)
			known, goroutines := e.Stats().Known, runtime.NumGoroutine()
			p := launch(t, swarm, strconv.Itoa(size), "1500", "500")
			require.Empty(t, p.end())
			// Two drains; of what was met in the middle of its exit, the time that it lingers and a scan.
			const room = 50
			require.Eventually(t, func() bool {
				now, endings, decided := held(t, e)
				t.Logf("%d subjects, %d of them ending, %d scopes, %d processes", now, endings, decided, e.Stats().Known)
				return now < subjects+room && decided < scopes+room && e.Stats().Known < known+room
			}, 40*time.Second, time.Second, "began with %d subjects, %d scopes, %d processes", subjects, scopes, known)
			require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+4)
			e.end()
			stats := e.Stats()
			got := add(e.of(func(*model.Process) bool { return true }))
			swarmed := add(e.of(runs(swarm)))
			t.Logf("%d processes in %s: %s, %s named; lost %v; unnamed %v of %d frames", size, p.took, got, swarmed, stats.Lost, stats.Unnamed, stats.Frames)
			require.Zero(t, stats.Lost[LossKey{"process", "too_many"}])
			require.Zero(t, stats.Lost[LossKey{"process", "scope_full"}])
			if include != nil {
				require.Zero(t, got.samples)
				return
			}
			require.Positive(t, swarmed.samples)
			for _, profile := range e.of(func(*model.Process) bool { return true }) {
				require.NotEmpty(t, profile.Process.ServiceName)
				require.NotEmpty(t, profile.Process.ExecutableName(), "%+v", profile.Process)
			}
		})
	}
}
