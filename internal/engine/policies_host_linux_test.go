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

	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// TestReadHost holds that of the host that alone is read which policies look at, that pressure is that of the time since the last
// look, and that what a kernel lacks is told and leaves the rest.
func TestReadHost(t *testing.T) {
	proc := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(proc, "pressure"), 0o700))
	stalled := func(total time.Duration) {
		text := fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", total.Microseconds())
		require.NoError(t, os.WriteFile(filepath.Join(proc, "pressure", "io"), []byte(text), 0o600))
	}
	core, logs := observer.New(zap.InfoLevel)
	p := &policies{proc: proc, waited: map[policy.Monitor]waited{}, warnings: warn.NewRarely(zap.New(core), "Policies see less", nil)}
	looks := func(monitors ...policy.Monitor) {
		p.entries = nil
		for _, monitor := range monitors {
			p.entries = append(p.entries, policyEntry{Policy: when(string(monitor), policy.Rule{Monitor: monitor, Period: 1, Count: 1})})
		}
	}
	looks(policy.ProcessCPU)
	require.Empty(t, p.readHost(0), "nobody asks")
	require.Empty(t, logs.All())

	looks(policy.SystemIOPressure, policy.ProcessCPU, policy.SystemIOPressure)
	stalled(100 * time.Second)
	require.Empty(t, p.readHost(1000*time.Second), "there is nothing to compare with")
	for _, tc := range []struct {
		more, later time.Duration
		want        float64
	}{
		{250 * time.Millisecond, time.Second, 25}, {0, time.Second, 0}, {time.Second, 2 * time.Second, 50}, {1100 * time.Millisecond, time.Second, 100},
	} {
		before := p.waited[policy.SystemIOPressure]
		stalled(before.total + tc.more)
		require.Equal(t, map[policy.Monitor]float64{policy.SystemIOPressure: tc.want}, p.readHost(before.at+tc.later))
	}

	require.NoError(t, os.WriteFile(filepath.Join(proc, "loadavg"), []byte("4.79 3.10 0.07 2/1234 30321\n"), 0o600))
	looks(policy.SystemLoad, policy.SystemMemoryPressure)
	require.Equal(t, map[policy.Monitor]float64{policy.SystemLoad: 4.79}, p.readHost(2000*time.Second))
	told := logs.All()
	require.Len(t, told, 1)
	require.Contains(t, told[0].ContextMap()["error"], "system_memory_pressure has no values: reading the pressure on memory")
	p.warnings.Close()
}
