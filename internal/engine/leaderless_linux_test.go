// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

// TestMainThreadEnds holds that a process is seen as before when its main thread has ended and another one runs on: in scope, with its
// names, its executable and its service.
func TestMainThreadEnds(t *testing.T) {
	mainThreadEnds(t, func(t *testing.T, e *observed, path string, c leaderless, p *program) {
		if p == nil {
			p = launch(t, path, endless, fmt.Sprint(c.after))
		}
		e.await(p.Process.Pid, func(got sum) bool {
			return got.time > 2*c.works/3 && got.within("work outlive") > 0 // it has mapped code where it works for so long
		})
		require.Eventually(t, func() bool { return proctest.HasEnded(p.Process.Pid) }, time.Minute, time.Millisecond)
		e.reportNow()
		before := add(e.of(isPID(p.Process.Pid))).samples
		e.await(p.Process.Pid, func(got sum) bool { return got.samples > before })
		require.Zero(t, add(e.of(isPID(p.Process.Pid))).errors[model.StackNoMappings])
		p.kill()
		e.end()
		seenAsBefore(t, e.of(isPID(p.Process.Pid)), path)
	})
}

// TestMeasureMainThreadEnds holds that all of it is seen.
func TestMeasureMainThreadEnds(t *testing.T) {
	mainThreadEnds(t, func(t *testing.T, e *observed, path string, c leaderless, p *program) {
		used := cmp.Or(c.works, 600*time.Millisecond)
		if emulated {
			used *= 5 // what is read of the process takes longer
		}
		if c.before {
			time.Sleep(used)
			p.kill()
		} else {
			p = launch(t, path, milliseconds(used), fmt.Sprint(c.after))
			used = p.end()[0]
		}
		e.end()
		stats := e.Stats()
		profiles := e.of(isPID(p.Process.Pid))
		got := add(profiles)
		t.Logf("%s of %s; lost %v; unnamed %v", got, used, stats.Lost, stats.Unnamed)
		if c.before {
			require.Greater(t, got.time, used/5, "others work, too")
		} else {
			near(t, used, got.time)
		}
		require.Greater(t, got.within("work outlive"), 0.95, "%v", got.stacks)
		require.Zero(t, got.errors[model.StackNoMappings])
		seenAsBefore(t, profiles, path)
	})
}

// leaderless is how the main thread of a program ends.
type leaderless struct {
	after            int           // milliseconds
	works            time.Duration // 0 is for not so long
	before           bool          // the engine starts
	include, exclude []process.Selector
}

// mainThreadEnds passes each case to judge, with the program where it runs before the engine starts.
func mainThreadEnds(t *testing.T, judge func(t *testing.T, e *observed, path string, c leaderless, p *program)) {
	t.Helper()
	needRoot(t)
	for name, c := range map[string]leaderless{
		"while it is observed":     {after: 100, works: 2500 * time.Millisecond},
		"before it is":             {before: true},
		"at once, by executable":   {include: []process.Selector{{Exe: "**/leaderless"}}},
		"at once, by service":      {include: []process.Selector{{Service: "^outlived$"}}},
		"at once, others left out": {exclude: []process.Selector{{Exe: "**/bash"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_SERVICE_NAME", "outlived")
			path := testbin.C(t, "testdata/leaderless.c")
			config := configuration(5*time.Millisecond, c.include...)
			config.Exclude, config.ScanInterval = c.exclude, 300*time.Millisecond
			var p *program
			if c.before {
				p = launch(t, path, endless, "0")
				require.Eventually(t, func() bool { return proctest.HasEnded(p.Process.Pid) }, time.Minute, time.Millisecond)
			}
			e := begin(t, config)
			if !c.before {
				time.Sleep(300 * time.Millisecond) // the first scan
			}
			judge(t, e, path, c, p)
		})
	}
}

// seenAsBefore holds how the process is named.
func seenAsBefore(t *testing.T, profiles []*model.Profile, path string) {
	t.Helper()
	require.NotEmpty(t, profiles)
	for _, profile := range profiles {
		require.Equal(t, path, profile.Process.Executable)
		require.Equal(t, "outlived", profile.Process.ServiceName)
		require.Equal(t, "leaderless", profile.Process.Comm)
	}
}
