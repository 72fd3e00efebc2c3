// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// toyConfig is a configuration with a policy of a monitor of the host for one process.
func toyConfig(monitor string, threshold, pid int) (*Config, error) {
	config := createDefaultConfig().(*Config)
	config.Observe = ObserveConfig{}
	err := confmap.NewFromStringMap(map[string]any{"policies": []any{map[string]any{
		"name": "toy", "targets": []any{map[string]any{"pid": pid}}, "run": []any{"on_cpu"}, "duration": "1s",
		"when": []any{map[string]any{"monitor": monitor, "threshold": threshold, "period": "5s", "count": 2}},
	}}}).Unmarshal(config)
	if err != nil {
		return nil, err
	}
	return config, confmap.Validate(config)
}

// TestToyMonitor checks that a monitor of one file and one line is validated, triggers a policy by its own value, and is exported. The value is
// a constant of the kernel, which the test reads itself.
func TestToyMonitor(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	require.NoError(t, err)
	pidMax, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	busy := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(t, busy.Start())
	t.Cleanup(func() {
		_ = busy.Process.Kill() // it runs for ever
		_ = busy.Wait()         // it was killed
	})

	_, err = toyConfig("toy_absent", pidMax, busy.Process.Pid)
	require.ErrorContains(t, err, `policies[0]::when[0]::monitor: "toy_absent" is not allowed: it must be one of process_cpu, `)
	require.ErrorContains(t, err, ", toy_pid_max")
	_, err = toyConfig("toy_pid_max", -1, busy.Process.Pid)
	require.ErrorContains(t, err, "policies[0]::when[0]::threshold: -1 is not allowed: it must be a number from 0 on")

	events, gauges := runToy(t, pidMax, busy.Process.Pid, true)
	require.Len(t, events, 1)
	require.Equal(t, "toy", events[0]["ebpf.policy"])
	require.Equal(t, []any{map[string]any{"monitor": "toy_pid_max", "threshold": float64(pidMax), "current": float64(pidMax)}}, events[0]["ebpf.causes"])
	require.Equal(t, []string{fmt.Sprintf("toy.pid.max {pid} %d map[ebpf.policy:toy]", pidMax)}, gauges)

	// The value is one less than the threshold.
	events, gauges = runToy(t, pidMax+1, busy.Process.Pid, false)
	require.Empty(t, events)
	require.Equal(t, []string{fmt.Sprintf("toy.pid.max {pid} %d map[ebpf.policy:toy]", pidMax)}, gauges)
}

// runToy runs a receiver until it has exported gauges, and the event of a trigger if its policy is to fire, and returns such events and the first gauges.
func runToy(t *testing.T, threshold, pid int, fires bool) (events []map[string]any, gauges []string) {
	config, err := toyConfig("toy_pid_max", threshold, pid)
	require.NoError(t, err)
	factory, settings, host := NewFactory(), receivertest.NewNopSettings(metadata.Type), &statusHost{}
	logs, metrics := &consumertest.LogsSink{}, &consumertest.MetricsSink{}
	r, err := factory.(xreceiver.Factory).CreateProfiles(t.Context(), settings, config, &consumertest.ProfilesSink{})
	require.NoError(t, err)
	_, err = factory.CreateLogs(t.Context(), settings, config, logs)
	require.NoError(t, err)
	_, err = factory.CreateMetrics(t.Context(), settings, config, metrics)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), host))
	awaitStart(r)
	for _, e := range host.events {
		require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
	}
	// Values are reported every ten seconds, at the end of a second in which the policy was evaluated.
	require.Eventually(t, func() bool { return len(toyGauges(metrics)) > 0 }, 60*time.Second, 50*time.Millisecond)
	gauges = toyGauges(metrics)[:1]
	triggers := func() []map[string]any { return exportedEvents(logs)["ebpf.profiling.triggered"] }
	if fires {
		require.Eventually(t, func() bool { return len(triggers()) > 0 }, time.Minute, 50*time.Millisecond)
	} else {
		time.Sleep(3 * time.Second) // a policy that fires needs two
	}
	require.NoError(t, r.Shutdown(context.Background()))
	return triggers(), gauges
}

// toyGauges are the points of gauges, as text.
func toyGauges(sink *consumertest.MetricsSink) (gauges []string) {
	for _, message := range sink.AllMetrics() {
		for _, resource := range message.ResourceMetrics().All() {
			for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
				if metric.Type() != pmetric.MetricTypeGauge {
					continue
				}
				for _, p := range metric.Gauge().DataPoints().All() {
					gauges = append(gauges, fmt.Sprintf("%s %s %d %v", metric.Name(), metric.Unit(), p.IntValue(), p.Attributes().AsRaw()))
				}
			}
		}
	}
	return gauges
}
