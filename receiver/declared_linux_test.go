// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// TestMetricsAreDeclared checks that metadata.yaml, of which documentation.md is made, declares what observations have, and
// nothing else.
func TestMetricsAreDeclared(t *testing.T) {
	d := readDeclared(t)
	names := map[string]bool{}
	for _, m := range slices.Concat(network.Descriptors(), engine.MonitorDescriptors(), engine.LimitDescriptors()) {
		names[m.Name] = true
		require.Contains(t, d.Metrics, m.Name)
		got := d.Metrics[m.Name]
		require.Equal(t, m.Unit, got.Unit, m.Name)
		require.Equal(t, m.Description, got.Description, m.Name)
		require.Equal(t, m.Instrument, got.instrument(), m.Name)
	}
	for name := range d.Metrics {
		require.Contains(t, names, name, "no observation has it")
	}
}

// connecting is the environment variable that makes the test binary a program that connects to the address in it.
const connecting = "EBPFRECEIVER_TEST_CONNECT"

// TestHelperConnects is that program; it lives until its standard input ends.
func TestHelperConnects(t *testing.T) {
	address := os.Getenv(connecting)
	if address == "" {
		t.Skip("is started by TestMetricsPipelineAlone")
	}
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	_, err = conn.Write([]byte("twelve bytes"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 5))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestMetricsPipelineAlone checks that a metrics pipeline starts network and nothing else, that the last interval arrives at
// shutdown, and that all points are as metadata.yaml declares them.
func TestMetricsPipelineAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	config, sink := createDefaultConfig().(*Config), &consumertest.MetricsSink{}
	networkOf(config).ReportInterval = 10 * time.Minute // only the last report is sent
	config.Metrics.Resource = resourceProcess
	r, err := NewFactory().CreateMetrics(t.Context(), receivertest.NewNopSettings(metadata.Type), config, sink)
	require.NoError(t, err)
	host := &statusHost{}
	require.NoError(t, r.Start(t.Context(), host))
	awaitStart(r)
	for _, e := range host.events {
		require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
	}
	stats := r.(*ebpfReceiver).engine.Stats()
	require.Positive(t, stats.Attached["network"])
	require.NotContains(t, stats.Attached, "on_cpu")

	pid, end := connect(t)
	require.NoError(t, r.Shutdown(context.Background()))
	end()

	d, bytes := readDeclared(t), map[string]int64{}
	for _, message := range sink.AllMetrics() {
		for _, resource := range message.ResourceMetrics().All() {
			of, _ := resource.Resource().Attributes().Get("process.pid")
			for _, metric := range resource.ScopeMetrics().At(0).Metrics().All() {
				require.Contains(t, d.Metrics, metric.Name())
				require.Equal(t, d.Metrics[metric.Name()].Unit, metric.Unit())
				eachPoint(metric, func(attributes pcommon.Map, p pmetric.NumberDataPoint) {
					d.requirePoint(t, metric.Name(), attributes.AsRaw())
					if metric.Name() == "ebpf.network.io" && of.Int() == int64(pid) {
						direction, _ := attributes.Get("network.io.direction")
						bytes[direction.Str()] += p.IntValue()
					}
				})
			}
		}
	}
	require.Equal(t, map[string]int64{"transmit": 12, "receive": 5}, bytes)
}

// connect lets another process connect to this one, and returns when both have sent something to each other.
func connect(t *testing.T) (pid int, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHelperConnects$")
	cmd.Env = append(os.Environ(), connecting+"="+l.Addr().String())
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	conn, err := l.Accept()
	require.NoError(t, err)
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	got, err := io.ReadAll(conn) // until it has closed its side
	require.NoError(t, err)
	require.Equal(t, "twelve bytes", string(got))
	require.NoError(t, conn.Close())
	return cmd.Process.Pid, func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, cmd.Wait())
	}
}

// eachPoint calls visit with the points of a metric; those of histograms have no number.
func eachPoint(metric pmetric.Metric, visit func(pcommon.Map, pmetric.NumberDataPoint)) {
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		for _, p := range metric.Sum().DataPoints().All() {
			visit(p.Attributes(), p)
		}
	case pmetric.MetricTypeGauge:
		for _, p := range metric.Gauge().DataPoints().All() {
			visit(p.Attributes(), p)
		}
	case pmetric.MetricTypeHistogram:
		for _, p := range metric.Histogram().DataPoints().All() {
			visit(p.Attributes(), pmetric.NewNumberDataPoint())
		}
	}
}
