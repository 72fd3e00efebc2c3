// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestScope holds that samples come of processes in scope and of no others.
func TestScope(t *testing.T) {
	needRoot(t)
	original := testbin.C(t, "testdata/chain.c")
	wanted, other := copyFile(t, original, t.TempDir()+"/wanted"), copyFile(t, original, t.TempDir()+"/other")
	attributes := map[string]string{"service.name": "checkout", "team": "pay"}
	narrowed := configuration(2*time.Millisecond, process.Selector{Exe: "/**/{wanted,other}"})
	planOf[*oncpu.Options](narrowed).Targets = []process.Selector{{Comm: "^wanted$"}, {Comm: "^absent$"}}
	excluding := configuration(2 * time.Millisecond)
	excluding.Exclude = []process.Selector{{Exe: other}}
	configs := map[string]Config{
		"include":               configuration(2*time.Millisecond, process.Selector{Exe: wanted, Set: attributes}),
		"exclude":               excluding,
		"narrowed by the kind":  narrowed,
		"include by cmdline":    configuration(2*time.Millisecond, process.Selector{Cmdline: "^" + wanted + " " + endless + " -$"}),
		"include by service":    configuration(2*time.Millisecond, process.Selector{Service: "^unknown_service:wanted$"}),
		"two includes, one hit": configuration(2*time.Millisecond, process.Selector{Comm: "^absent$"}, process.Selector{Exe: wanted}),
	}
	observing := map[string]*observed{} // all at once: each start takes seconds
	for name, config := range configs {
		if !emulated || name == "include" || name == "exclude" || name == "narrowed by the kind" { // the others are the same on every kernel
			observing[name] = begin(t, config)
		}
	}
	in, out := launch(t, wanted, endless, "-"), launch(t, other, endless, "-") // the cmdline says so, too
	for _, e := range observing {
		e.await(in.Process.Pid, func(got sum) bool { return got.samples > 300 }) // so long the other one worked, too
	}
	in.kill()
	out.kill()
	for name, e := range observing {
		t.Run(name, func(t *testing.T) {
			e.end()
			got := add(e.of(isPID(in.Process.Pid)))
			in.possible(got, 2*time.Millisecond)
			requireNothingOf(t, e, out)
			require.Empty(t, e.of(isPID(os.Getpid())), "the observer is never in scope")
			stats := e.Stats()
			if name == "include" {
				p := e.of(isPID(in.Process.Pid))[0].Process
				require.Equal(t, "checkout", p.ServiceName)
				require.Equal(t, map[string]string{"team": "pay"}, p.Attributes)
			}
			if unmatched, ok := map[string]string{
				"two includes, one hit": "targets::include[0]",
				"narrowed by the kind":  "observe::on_cpu::targets[1]",
			}[name]; ok {
				require.Equal(t, 1, stats.SelectorsUnmatched)
				warnings := e.logs.FilterMessage("selectors match no process so far").All()
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0].ContextMap()["selectors"], unmatched)
			}
		})
	}
}

// requireNothingOf holds that nothing was exported of a program. A sample of its process from between fork and exec is none
// of the program: until then the process runs that of this test.
func requireNothingOf(t *testing.T, e *observed, p *program) {
	t.Helper()
	require.Empty(t, e.of(runs(p.Path)))
	for _, profile := range e.of(isPID(p.Process.Pid)) {
		require.NotEqual(t, filepath.Base(p.Path), profile.Process.ExecutableName())
		for _, sample := range profile.Samples {
			for _, frame := range sample.Frames {
				if frame.Mapping != nil {
					require.NotEqual(t, p.Path, frame.Mapping.Path)
				}
			}
		}
	}
}

func TestServiceName(t *testing.T) {
	needRoot(t)
	needPromptness(t)
	chain := testbin.C(t, "testdata/chain.c")
	e := begin(t, configuration(2*time.Millisecond))
	t.Setenv("OTEL_SERVICE_NAME", "named by its environment")
	p := launch(t, chain, endless, "-")
	launched := time.Now()
	named := func(m *model.Process) bool { return isPID(p.Process.Pid)(m) && runs(chain)(m) }
	require.Eventually(t, func() bool { return len(e.of(named)) > 0 }, time.Minute, 50*time.Millisecond)
	p.kill()
	e.end()
	for _, profile := range e.of(named) {
		require.Equal(t, "named by its environment", profile.Process.ServiceName)
		require.Equal(t, []string{chain, endless, "-"}, profile.Process.Arguments)
		require.WithinRange(t, profile.Process.CreationTime, p.began.Add(-time.Second), launched.Add(time.Second))
	}
}

// TestSelfIsNotSampled holds that an engine that observes everybody leaves itself and the idle task out.
func TestSelfIsNotSampled(t *testing.T) {
	needRoot(t)
	e := begin(t, configuration(time.Millisecond))
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); { //nolint:revive // work of its own
	}
	e.end()
	require.Empty(t, e.of(func(p *model.Process) bool { return p.ID.PID == uint32(os.Getpid()) || p.ID.PID == 0 }))
}
