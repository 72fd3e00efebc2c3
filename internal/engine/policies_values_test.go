// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// TestValuesOfInstance holds how the values of processes make those of their service instance: what they use is added up, of requests the
// highest is reported, and each policy and path by itself.
func TestValuesOfInstance(t *testing.T) {
	to := &model.Metrics{}
	for _, v := range []policy.Value{
		{Policy: "p", Monitor: monitor.ProcessCPU, Value: 10}, {Policy: "p", Monitor: monitor.ProcessCPU, Value: 20},
		{Policy: "q", Monitor: monitor.ProcessCPU, Value: 40},
		{Policy: "p", Monitor: monitor.ProcessThreadCount, Value: 3}, {Policy: "p", Monitor: monitor.ProcessThreadCount, Value: 4},
		{Policy: "p", Monitor: monitor.HTTPErrorRate, Path: "/a", Value: 50}, {Policy: "p", Monitor: monitor.HTTPErrorRate, Path: "/a", Value: 25},
	} {
		addValue(to, v)
	}
	require.Len(t, to.Metrics, 3)
	cpu, threads, errors := to.Metrics[0].Points, to.Metrics[1].Points, to.Metrics[2].Points
	require.Len(t, cpu, 2)
	require.InDelta(t, 0.3, cpu[0].Float, 1e-9)
	require.InDelta(t, 0.4, cpu[1].Float, 1e-9)
	require.Len(t, threads, 1)
	require.EqualValues(t, 7, threads[0].Int)
	require.Len(t, errors, 1)
	require.InDelta(t, 0.5, errors[0].Float, 1e-9)
}
