// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// TestReadHost holds that only those values of the host are read that policies use, that pressure is that of the time since the last
// reading, and that what a kernel lacks is logged and leaves the rest.
func TestReadHost(t *testing.T) {
	proc := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(proc, "pressure"), 0o700))
	stalled := func(total time.Duration) {
		text := fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", total.Microseconds())
		require.NoError(t, os.WriteFile(filepath.Join(proc, "pressure", "io"), []byte(text), 0o600))
	}
	core, logs := observer.New(zap.InfoLevel)
	p := &policies{proc: proc, warnings: warn.NewRarely(zap.New(core), "Policies see less", nil)}
	looks := func(monitors ...*monitor.Descriptor) {
		p.entries = nil
		for _, of := range monitors {
			p.entries = append(p.entries, policyEntry{Policy: when(of.Name, policy.Rule{Monitor: of, Period: 1, Count: 1})})
		}
	}
	looks(monitor.ProcessCPU)
	require.Empty(t, p.readHost(0), "no rule uses it")
	require.Empty(t, logs.All())

	looks(monitor.SystemIOPressure, monitor.ProcessCPU, monitor.SystemIOPressure)
	total, at := 100*time.Second, 1000*time.Second
	stalled(total)
	require.Empty(t, p.readHost(at), "there is nothing to compare with")
	for _, tc := range []struct {
		more, later time.Duration
		want        float64
	}{
		{250 * time.Millisecond, time.Second, 25}, {0, time.Second, 0}, {time.Second, 2 * time.Second, 50}, {1100 * time.Millisecond, time.Second, 100},
	} {
		total, at = total+tc.more, at+tc.later
		stalled(total)
		require.Equal(t, map[*monitor.Descriptor]float64{monitor.SystemIOPressure: tc.want}, p.readHost(at))
	}

	require.NoError(t, os.WriteFile(filepath.Join(proc, "loadavg"), []byte("4.79 3.10 0.07 2/1234 30321\n"), 0o600))
	looks(monitor.SystemLoad, monitor.SystemMemoryPressure)
	require.Equal(t, map[*monitor.Descriptor]float64{monitor.SystemLoad: 4.79}, p.readHost(2000*time.Second))
	logged := logs.All()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0].ContextMap()["error"], "system_memory_pressure has no values: reading the pressure on memory")
	p.warnings.Close()
}

// TestUnlistedMonitor checks that a monitor that is not in the list has the value of its own reader and its own metric, and that the readers of
// two sets of policies do not share what they read before.
func TestUnlistedMonitor(t *testing.T) {
	proc := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(proc, "loadavg"), []byte("4.79 3.10 0.07 2/1234 30321\n"), 0o600))
	unlisted := &monitor.Descriptor{
		Name: "system_temperature", Metric: model.Descriptor{Name: "system.temperature"}, Scale: 0.1,
		Host: func() monitor.HostReader {
			reads := 0.0
			return func(roots monitor.Roots, _ time.Duration) (float64, bool, error) {
				require.Equal(t, monitor.Roots{Proc: proc, Sys: "/sys"}, roots)
				reads++
				return 40 + reads, true, nil
			}
		},
	}
	require.Nil(t, monitor.Named(unlisted.Name))
	of := []policyEntry{{Policy: when("p", policy.Rule{Monitor: unlisted, Period: 1, Count: 1})}}
	p, other := &policies{proc: proc, sys: "/sys", entries: of}, &policies{proc: proc, sys: "/sys", entries: of}
	require.Equal(t, map[*monitor.Descriptor]float64{unlisted: 41}, p.readHost(time.Second))
	require.Equal(t, map[*monitor.Descriptor]float64{unlisted: 42}, p.readHost(2*time.Second))
	require.Equal(t, map[*monitor.Descriptor]float64{unlisted: 41}, other.readHost(2*time.Second))
	metrics := &model.Metrics{}
	addValue(metrics, policy.Value{Monitor: unlisted, Value: 40})
	require.Len(t, metrics.Metrics, 1)
	require.Equal(t, "system.temperature", metrics.Metrics[0].Name)
	require.InDelta(t, 4, metrics.Metrics[0].Points[0].Float, 1e-9)
}
