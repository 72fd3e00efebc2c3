// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestDescriptors checks that each monitor has one reader, a gauge of its own, and what documentation needs.
func TestDescriptors(t *testing.T) {
	names, metrics := map[string]bool{}, map[string]bool{}
	for _, d := range All() {
		require.Regexp(t, regexp.MustCompile(`^[a-z][a-z_]*[a-z]$`), d.Name)
		require.False(t, names[d.Name], "%s is listed twice", d.Name)
		require.False(t, metrics[d.Metric.Name], "%s: another monitor has its metric", d.Name)
		names[d.Name], metrics[d.Metric.Name] = true, true
		readers := 0
		for _, set := range []bool{d.Process != nil, d.Host != nil, d.Requests != nil} {
			if set {
				readers++
			}
		}
		require.Equal(t, 1, readers, d.Name)
		require.NotEmpty(t, d.Unit, d.Name)
		require.NotEmpty(t, d.Doc, d.Name)
		require.NotEmpty(t, d.Metric.Description, d.Name)
		require.NotEmpty(t, d.Metric.Unit, d.Name)
		require.Equal(t, model.Gauge, d.Metric.Instrument, d.Name)
		require.Positive(t, d.Scale, d.Name)
		require.GreaterOrEqual(t, d.Max, 0.0, d.Name)
		require.Same(t, d, Named(d.Name))
	}
	require.Nil(t, Named("system_temperature"))
	require.Nil(t, Named(""))
}

// TestNamesStay checks that the monitors that configurations use exist, with their scopes.
func TestNamesStay(t *testing.T) {
	for name, scope := range map[string]Scope{
		"process_cpu": ScopeProcess, "process_thread_count": ScopeProcess,
		"system_load": ScopeHost, "system_cpu_pressure": ScopeHost, "system_memory_pressure": ScopeHost, "system_io_pressure": ScopeHost,
		"http_error_rate": ScopeRequests, "http_avg_response_time": ScopeRequests,
	} {
		require.NotNil(t, Named(name), name)
		require.Equal(t, scope, Named(name).Scope(), name)
	}
}

func TestThresholds(t *testing.T) {
	for _, of := range All() {
		require.NoError(t, of.CheckThreshold(0), of.Name)
		require.NoError(t, of.CheckThreshold(of.Max), of.Name)
		for _, bad := range []float64{-0.1, math.NaN(), math.Inf(1), math.Inf(-1)} {
			require.ErrorContains(t, of.CheckThreshold(bad), "it must be a number from 0 on", of.Name)
		}
	}
	require.EqualError(t, ProcessCPU.CheckThreshold(100.5), "100.5 is not allowed: process_cpu is in per cent, from 0 to 100")
	require.NoError(t, ProcessThreadCount.CheckThreshold(100.5))
	require.Equal(t, "0–100", HTTPErrorRate.Range())
	require.Equal(t, "from 0", SystemLoad.Range())
}

// TestValues checks values of processes and requests by hand; those of the host need files, see TestReadHost of internal/engine.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		of   *Descriptor
		used Process
		want float64
		ok   bool
	}{
		{ProcessCPU, Process{CPU: 500 * time.Millisecond, Elapsed: time.Second, CPUs: 2}, 25, true},
		{ProcessCPU, Process{CPU: 3 * time.Second, Elapsed: time.Second, CPUs: 2}, 100, true},
		{ProcessCPU, Process{CPU: 500 * time.Millisecond, Elapsed: time.Second}, 50, true},
		{ProcessCPU, Process{Threads: 3, CPUs: 2}, 0, false},
		{ProcessThreadCount, Process{Threads: 3}, 3, true},
	} {
		value, ok := c.of.Process(c.used)
		require.Equal(t, c.ok, ok)
		require.InDelta(t, c.want, value, 1e-9)
	}
	requests := Requests{Known: 8, Errors: 2, Timed: 4, Took: 6 * time.Second}
	sum, n := HTTPErrorRate.Requests(requests)
	require.InDelta(t, 200, sum, 1e-9)
	require.EqualValues(t, 8, n)
	sum, n = HTTPAvgResponseTime.Requests(requests)
	require.InDelta(t, 6000, sum, 1e-9)
	require.EqualValues(t, 4, n)
}
