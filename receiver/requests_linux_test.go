// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// requestLog is one log with the pid of its process.
type requestLog struct {
	pid    int64
	record plog.LogRecord
	of     map[string]any
}

func allLogs(sink *consumertest.LogsSink) (all []requestLog) {
	for _, message := range sink.AllLogs() {
		for _, resource := range message.ResourceLogs().All() {
			pid, _ := resource.Resource().Attributes().Get("process.pid")
			for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
				all = append(all, requestLog{pid.Int(), record, record.Attributes().AsRaw()})
			}
		}
	}
	return all
}

// TestRequestsOfOthersAreLogged checks that with a logs pipeline alone each request of curl to Python's http.server is logged by both, with
// the trace that curl sends, the status and size that it has received, and a duration, which on curl's side is within that which it has measured.
func TestRequestsOfOthersAreLogged(t *testing.T) { requestsOfOthers(t, false) }

// TestMeasureRequestsOfOthers holds that the server's durations are within curl's, too: a server that stands still in its last call may take longer.
func TestMeasureRequestsOfOthers(t *testing.T) { requestsOfOthers(t, true) }

func requestsOfOthers(t *testing.T, quiet bool) {
	t.Helper()
	needOthers(t)
	config, sink := createDefaultConfig().(*Config), &consumertest.LogsSink{}
	config.Limits.CPUPercent = 100 // it reads the requests of all connections
	options := networkOf(config)
	options.ReportInterval, options.Requests.Log = 500*time.Millisecond, network.LogAll
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), config, sink)
	require.NoError(t, err)
	startWhole(t, r)
	stats := r.(*ebpfReceiver).engine.Stats()
	require.Positive(t, stats.Attached["network"])
	require.NotContains(t, stats.Attached, "on_cpu")

	server, port := servePython(t, map[string]string{"page.html": "some text"})
	clients, began := map[int]curled{}, time.Now()
	for _, path := range []string{"/page.html?user=smith", "/absent"} {
		c := curl(t, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), "traceparent: 00-"+trace+"-"+span+"-01")
		clients[c.pid] = c
	}
	var logs []requestLog
	requestsOf := func(event string) (list []requestLog) {
		for _, l := range allLogs(sink) {
			if _, client := clients[int(l.pid)]; (client || l.pid == int64(server)) && l.record.EventName() == event && l.of["url.path"] != "/" {
				list = append(list, l)
			}
		}
		return list
	}
	require.Eventually(t, func() bool {
		logs = requestsOf("ebpf.request")
		return len(logs) == 2*len(clients) && len(requestsOf("ebpf.request.top")) >= 2
	}, time.Minute, 100*time.Millisecond, "each is logged by both sides: %v", &logs)
	elapsed := time.Since(began).Seconds()
	require.NoError(t, r.Shutdown(t.Context()))
	require.Len(t, requestsOf("ebpf.request"), 2*len(clients), "and once by each")

	d := readDeclared(t)
	byPath := map[string]curled{}
	for _, c := range clients {
		byPath[c.path] = c
	}
	for _, l := range allLogs(sink) {
		require.Contains(t, d.Events, l.record.EventName())
		d.requireAttributes(t, l.record.EventName(), d.Events[l.record.EventName()].Attributes, l.of)
	}
	for _, l := range logs {
		c, ok := byPath[l.of["url.path"].(string)]
		require.True(t, ok, l.of)
		require.Equal(t, trace, l.record.TraceID().String())
		require.Equal(t, span, l.record.SpanID().String())
		require.True(t, l.record.Flags().IsSampled())
		require.Equal(t, c.Status, l.of["http.response.status_code"])
		require.Equal(t, c.Size, l.of["http.response.body.size"])
		most := c.Total
		if l.pid == int64(server) && !quiet {
			most = elapsed
		}
		require.LessOrEqual(t, l.of["ebpf.request.duration"].(float64), most)
		require.Positive(t, l.of["ebpf.request.duration"])
		if c.path == "/page.html" {
			require.Equal(t, "user=?", l.of["url.query"])
		}
		if l.pid == int64(server) {
			require.Equal(t, "server", l.of["ebpf.role"])
			require.EqualValues(t, c.pid, l.of["ebpf.peer.pid"])
		} else {
			require.EqualValues(t, c.pid, l.pid)
			require.Equal(t, "client", l.of["ebpf.role"])
			require.EqualValues(t, server, l.of["ebpf.peer.pid"])
			require.EqualValues(t, port, l.of["network.peer.port"])
		}
	}
	for _, l := range requestsOf("ebpf.request.top") {
		reason := l.of["ebpf.reason"]
		took := l.of["ebpf.request.duration"].(float64)
		require.True(t, reason == "slow" && took >= 0.5 || reason == "4xx" && l.of["url.path"] == "/absent", l.of)
		require.Contains(t, l.record.Body().Str(), fmt.Sprint(reason, ": ", l.of["ebpf.role"], " GET ", l.of["url.path"], " "))
	}
}

// servePython starts Python's http.server with these files and returns its pid and port.
func servePython(t *testing.T, files map[string]string) (pid, port int) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return startPython(t, "/", "-m", "http.server", "--bind", "127.0.0.1", "--directory", dir)
}

// startPython starts a server that is a program of Python's, whose last argument is a port that is free, and waits until it
// answers for a path.
func startPython(t *testing.T, ready string, arguments ...string) (pid, port int) {
	t.Helper()
	port = freeport.For(t)
	// The interpreter itself: what python3 names may be a script that leads to it.
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	require.NoError(t, err)
	cmd := exec.Command(string(python), append(arguments, fmt.Sprint(port))...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	require.Eventually(t, func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, ready))
		if err != nil {
			return false
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err == nil && response.Body.Close() == nil
	}, time.Minute, 50*time.Millisecond, "it listens")
	return cmd.Process.Pid, port
}

// The trace and the span that clients name.
const (
	trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	span  = "00f067aa0ba902b7"
)

// needOthers skips where there is no root, or no programs of others.
func needOthers(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	if guest.Running() {
		t.Skip("the guests have neither curl nor python3")
	}
}

// startWhole starts a receiver, of which nothing may be missing.
func startWhole(t *testing.T, r component.Component) {
	t.Helper()
	host := &statusHost{}
	require.NoError(t, r.Start(t.Context(), host))
	awaitStart(r)
	for _, e := range host.events {
		require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
	}
}

// curled is what curl says of a request.
type curled struct {
	pid    int
	path   string
	Status int64   `json:"http_code"`
	Size   int64   `json:"size_download"`
	Total  float64 `json:"time_total"` // s
}

func curl(t *testing.T, url, header string) curled {
	t.Helper()
	cmd := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{json}", "-H", header, url)
	out, err := cmd.Output()
	require.NoError(t, err)
	request, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	c := curled{pid: cmd.Process.Pid, path: request.URL.Path}
	require.NoError(t, json.Unmarshal(out, &c))
	return c
}
