// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// TestTaskRequests holds what tasks of a configuration ask for: what is over does not run, and what has begun runs on.
func TestTaskRequests(t *testing.T) {
	c, err := load(t, "config.yaml", "ebpf/tasks")
	require.NoError(t, err)
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	all := observe.Signals{Profiles: true, Metrics: true, Logs: true}
	minBlock := &offcpu.Options{Common: observe.Common{ReportInterval: 5 * time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, MinBlock: 5 * time.Millisecond}

	before, over := taskRequests(c.Tasks, all, start.Add(-time.Hour))
	require.Empty(t, over)
	require.Len(t, before, 2)
	first := before[0]
	require.Equal(t, "slow-pay", first.Name)
	require.Equal(t, "config", first.By)
	require.Equal(t, []process.Selector{{Service: "checkout"}}, first.Targets)
	require.Equal(t, 20*time.Minute, first.Duration)
	require.True(t, start.Equal(first.Start))
	require.Len(t, first.Runs, 4)
	require.Equal(t, task.Run{Kind: "off_cpu", Options: minBlock}, first.Runs[1])
	require.Equal(t, "network", first.Runs[2].Kind)
	require.Equal(t, 2*time.Minute, first.Runs[2].Duration)
	require.IsType(t, &network.Plan{}, first.Runs[2].Options)
	require.Equal(t, 10*time.Minute, before[1].Duration)

	amid, over := taskRequests(c.Tasks, all, start.Add(5*time.Minute))
	require.Equal(t, []string(nil), over)
	require.Len(t, amid[0].Runs, 3, "the one of two minutes is over")
	for _, run := range amid[0].Runs {
		require.Equal(t, 15*time.Minute, run.Duration)
	}
	after, over := taskRequests(c.Tasks, all, start.Add(time.Hour))
	require.Empty(t, after)
	require.Equal(t, []string{"slow-pay", "text"}, over)

	unheard, _ := taskRequests(c.Tasks, observe.Signals{Metrics: true}, start)
	require.Len(t, unheard, 1)
	require.Len(t, unheard[0].Runs, 1)
	require.Equal(t, []string{
		"tasks[0]::run[0] (on_cpu)", "tasks[0]::run[1] (off_cpu)", "tasks[0]::run[3] (memory)", "tasks[1]::run[0] (on_cpu)",
	}, unheardRuns(c.Tasks, observe.Signals{Metrics: true}))
	require.Empty(t, unheardRuns(c.Tasks, all))
	require.True(t, engineConfig(c, all).OnDemand)
}
