// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// short observes the requests of one executable to one server, and exports the receiver's own metrics.
const short = `
receivers:
  ebpf:
    targets: {include: [{exe: %q, cmdline: %q}]}
    observe: {network: {report_interval: 1s}}
    limits: {cpu_percent: 100}
exporters:
  file: {path: %q, flush_interval: 100ms}
service:
  telemetry: {metrics: {level: detailed, readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s, without_type_suffix: true, without_units: true}}}}]}}
  pipelines: {metrics: {receivers: [ebpf], exporters: [file]}}
`

// TestRequestsOfShortProcesses checks that the requests of processes that exit right after them are counted, though each process is
// decided about when it has ended: what is not in the metric is counted as lost.
func TestRequestsOfShortProcesses(t *testing.T) { requestsOfShortProcesses(t) }

// TestMeasureRequestsOfShortProcesses holds how many are in the metric.
func TestMeasureRequestsOfShortProcesses(t *testing.T) {
	require.GreaterOrEqual(t, requestsOfShortProcesses(t), 95, "of 100")
}

// requestsOfShortProcesses returns how many of 100 requests are in the metric.
func requestsOfShortProcesses(t *testing.T) int {
	t.Helper()
	needRoot(t)
	const runs = 100
	binary, file, own := distribution(t), filepath.Join(t.TempDir(), "metrics.json"), freeport.Endpoint(t)
	curl, err := exec.LookPath("curl")
	require.NoError(t, err)
	curl, err = filepath.EvalSymlinks(curl)
	require.NoError(t, err)
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	t.Cleanup(server.Close)
	c := start(t, binary, fmt.Sprintf(short, curl, server.Listener.Addr(), file, own[strings.LastIndexByte(own, ':')+1:]), nil)

	for range runs {
		require.NoError(t, exec.Command(curl, "--silent", "--show-error", "--no-keepalive", server.URL+"/short").Run())
	}
	require.EqualValues(t, runs, served.Load())
	counted := func() (sum int) {
		for key, n := range httpCounts(t, file) {
			if strings.HasPrefix(key, "client GET ") {
				sum += int(n)
			}
		}
		return sum
	}
	lost := func() (sum int) {
		for _, reason := range []string{"request_undecided", "request_unattributed", "buffer_full", "program_busy", "request_interrupted"} {
			sum += int(losses(t, own, reason))
		}
		return sum
	}
	require.Eventually(t, func() bool { return counted()+lost() >= runs }, time.Minute, 200*time.Millisecond, "the Collector's log: %s", &c.log)
	require.LessOrEqual(t, counted(), runs, "each once")
	c.stop()
	require.LessOrEqual(t, counted(), runs, "each once")
	return counted()
}

// excluding observes the requests and stacks of two executables, but for one of them.
const excluding = `
receivers:
  ebpf:
    targets: {include: [{exe: %[1]q}, {cmdline: %[2]q}], exclude: [{exe: %[3]q}]}
    observe: {on_cpu: {period: 1ms}, network: {report_interval: 1s, requests: {log: all}}}
    limits: {cpu_percent: 100}
exporters:
  file/metrics: {path: %[4]q, flush_interval: 100ms}
  file/logs: {path: %[5]q, flush_interval: 100ms}
  nop: {}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [ebpf], exporters: [file/metrics]}
    logs: {receivers: [ebpf], exporters: [file/logs]}
    profiles: {receivers: [ebpf], exporters: [nop]}
`

// TestExcludedShortProcesses checks that of processes which end before they are read nothing is reported where their executable is excluded, whatever
// is known of the processes that they were forked from, and that the requests are all reported by their server.
func TestExcludedShortProcesses(t *testing.T) {
	needRoot(t)
	const runs, together = 200, 8
	dir := t.TempDir()
	metrics, logs := filepath.Join(dir, "metrics.json"), filepath.Join(dir, "logs.json")
	curl, err := exec.LookPath("curl")
	require.NoError(t, err)
	curl, err = filepath.EvalSymlinks(curl)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	c := start(t, distribution(t), fmt.Sprintf(excluding, self, server.Listener.Addr(), curl, metrics, logs), nil)

	var clients sync.WaitGroup
	slots, failed := make(chan struct{}, together), atomic.Int64{}
	for n := range runs {
		client := exec.Command(curl, "--silent", "--show-error", server.URL+"/excluded")
		if n%2 == 0 { // of a shell that runs it in its place
			client = exec.Command("sh", "-c", `exec "$0" "$@"`, curl, "--silent", "--show-error", server.URL+"/excluded")
		}
		slots <- struct{}{}
		clients.Go(func() {
			if client.Run() != nil {
				failed.Add(1)
			}
			<-slots
		})
	}
	clients.Wait()
	require.Zero(t, failed.Load())
	require.Eventually(t, func() bool { return httpCounts(t, metrics)["server GET /excluded 200"] == runs }, time.Minute, 100*time.Millisecond, "%s", &c.log)
	c.stop()
	logged := 0
	for key := range httpCounts(t, metrics) {
		require.False(t, strings.HasPrefix(key, "client GET /excluded"), key)
	}
	for _, l := range readLogs(t, logs) {
		if text(l.Attributes(), "url.path") != "/excluded" {
			continue // another process of this executable
		}
		require.Equal(t, "server", text(l.Attributes(), "ebpf.role"), "process %d: %v", l.pid, l.Attributes().AsRaw())
		logged++
	}
	require.Positive(t, logged)
}
