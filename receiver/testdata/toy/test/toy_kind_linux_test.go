// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// toyKind is a configuration that observes a process by the kind toy, from the start and for a task.
func toyKind(pid int, options, run any) (*Config, error) {
	config := createDefaultConfig().(*Config)
	targets := []any{map[string]any{"pid": pid}}
	err := confmap.NewFromStringMap(map[string]any{
		"targets": map[string]any{"include": targets},
		"observe": map[string]any{"toy": options},
		"tasks":   []any{map[string]any{"name": "toy", "targets": targets, "run": []any{map[string]any{"toy": run}}, "duration": "1h"}},
	}).Unmarshal(config)
	if err != nil {
		return nil, err
	}
	return config, confmap.Validate(config)
}

// TestToyKind checks that a kind of one folder and one line is validated, has defaults, runs from the start and for a task, and is part of the
// receiver's own statistics. Its value is one that the test sets.
func TestToyKind(t *testing.T) {
	const adjusted = 17
	idle := exec.Command("sleep", "600")
	require.NoError(t, idle.Start())
	t.Cleanup(func() {
		_ = idle.Process.Kill() // it runs for ever
		_ = idle.Wait()         // it was killed
	})
	pid := idle.Process.Pid
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), fmt.Append(nil, adjusted), 0))

	_, err := toyKind(pid, map[string]any{"factor": 11}, map[string]any{"factor": 0, "report_interval": "1ms"})
	require.ErrorContains(t, err, "observe::toy::factor: 11 is not allowed: it must lie between 1 and 10")
	require.ErrorContains(t, err, "tasks[0]::run[0]::toy::factor: 0 is not allowed: it must lie between 1 and 10")
	require.ErrorContains(t, err, "tasks[0]::run[0]::toy::report_interval: 1ms is not allowed: it must lie between 1s and 10m0s")
	_, err = toyKind(pid, map[string]any{"facto": 1}, map[string]any{"factor": "many"})
	require.ErrorContains(t, err, "observe::toy::facto: no such key; allowed here are factor, report_interval, targets")
	require.ErrorContains(t, err, `tasks[0]::run[0]::toy::factor: "many" is not allowed: it must be a whole number`)

	config, err := toyKind(pid, nil, map[string]any{"factor": 2, "report_interval": "1s"})
	require.NoError(t, err)
	metrics := &consumertest.MetricsSink{}
	created, err := NewFactory().CreateMetrics(t.Context(), receivertest.NewNopSettings(metadata.Type), config, metrics)
	require.NoError(t, err)
	require.NoError(t, created.Start(t.Context(), &statusHost{}))
	awaitStart(created)
	has := func(value int, attributes string) func() bool {
		point := fmt.Sprintf("toy.oom_score_adj 1 %d map[%s", value, attributes)
		return func() bool {
			return slices.ContainsFunc(toyGauges(metrics), func(gauge string) bool { return strings.HasPrefix(gauge, point) })
		}
	}
	require.Eventually(t, has(adjusted, "]"), time.Minute, 50*time.Millisecond, "observed from the start")
	require.Eventually(t, has(2*adjusted, "ebpf.task.id:"), time.Minute, 50*time.Millisecond, "observed for the task")
	stats := created.(*ebpfReceiver).running().Stats()
	require.Equal(t, 2, stats.Attached["toy"], "both observations follow the process")
	require.Positive(t, stats.Events["toy"])
	require.NoError(t, created.Shutdown(context.Background()))
}
