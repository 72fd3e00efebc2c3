// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// counting observes the connections of one program by a metrics pipeline alone, for OTLP and for Prometheus.
const counting = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    observe: {network: {report_interval: 1s, capture: none}}
    metrics: {resource: process}
exporters:
  file: {path: %q, flush_interval: 100ms}
  prometheus: {endpoint: %q, resource_to_telemetry_conversion: {enabled: true}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [ebpf], exporters: [file, prometheus]}}
`

// TestKnownTransfer checks that the bytes that a program sends and receives, as it says itself, are what comes out of the
// Collector, once for OTLP and once for Prometheus.
func TestKnownTransfer(t *testing.T) {
	needRoot(t)
	binary, program := distribution(t), testbin.C(t, "testdata/transfer.c")
	file, scrape := filepath.Join(t.TempDir(), "metrics.json"), freeport.Endpoint(t)
	const toServer, toClient = 12_345_678, 7_654_321
	server := serve(t, toClient)
	c := start(t, binary, fmt.Sprintf(counting, program, file, scrape), nil)

	client := transfer(t, program, server.port, toServer)
	require.Equal(t, []int64{toServer, toClient}, []int64{client.sent, client.received})
	require.Equal(t, int64(toServer), <-server.received)

	transmitted, received := bytesOf(client.pid, "transmit"), bytesOf(client.pid, "receive")
	var page string
	require.Eventually(t, func() bool {
		page = get(t, "http://"+scrape+"/metrics")
		return len(samples(page, transmitted...)) > 0 && len(samples(page, received...)) > 0
	}, time.Minute, 200*time.Millisecond, "the Collector's log: %s", &c.log)
	require.Eventually(t, func() bool {
		page = get(t, "http://"+scrape+"/metrics")
		return samples(page, transmitted...)[0] == toServer && samples(page, received...)[0] == toClient
	}, time.Minute, 200*time.Millisecond, "bytes; what is exported: %s", page)
	require.Len(t, samples(page, transmitted...), 1)
	require.Contains(t, page, "# TYPE ebpf_network_io_bytes_total counter")
	require.Contains(t, page, "# TYPE ebpf_network_operation_duration_seconds histogram")
	requireNoSampleTwice(t, page)
	require.NoError(t, client.end())
	c.stop()
	require.NotContains(t, c.log.String(), "\terror\t")

	all := readMetrics(t, file)
	series := all.of("ebpf.network.io", client.pid)
	require.Len(t, series, 2, "one for each direction")
	for _, s := range series {
		want := map[string]int64{"transmit": toServer, "receive": toClient}[text(s.attributes, "network.io.direction")]
		require.Equal(t, want, s.last)
		require.Equal(t, "client", text(s.attributes, "ebpf.role"))
		require.Equal(t, "tcp", text(s.attributes, "network.transport"))
		require.Equal(t, "127.0.0.1", text(s.attributes, "network.peer.address"))
		require.Equal(t, strconv.Itoa(server.port), text(s.attributes, "network.peer.port"))
	}
}

// server takes one connection, counts what it receives and then sends so much.
type server struct {
	port     int
	received chan int64
}

func serve(t *testing.T, answer int64) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &server{port: l.Addr().(*net.TCPAddr).Port, received: make(chan int64, 1)}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			s.received <- -1
			return
		}
		defer conn.Close()
		n, _ := io.Copy(io.Discard, conn)
		_, _ = io.CopyN(conn, zeros{}, answer)
		s.received <- n
	}()
	return s
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// transferred is a program that has said what it sent and received, and runs until it is ended.
type transferred struct {
	pid            int
	sent, received int64
	end            func() error
}

func transfer(t *testing.T, program string, port, bytes int) transferred {
	t.Helper()
	cmd := exec.Command(program, strconv.Itoa(port), strconv.Itoa(bytes))
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	c := transferred{pid: cmd.Process.Pid, end: func() error {
		_ = stdin.Close()
		return cmd.Wait()
	}}
	_, err = fmt.Sscan(line, &c.sent, &c.received)
	require.NoError(t, err)
	return c
}

func get(t *testing.T, url string) string {
	t.Helper()
	_, body := statusOf(t, url)
	return body
}

// statusOf returns the status and the body of an answer.
func statusOf(t *testing.T, url string) (code int, text string) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// bytesOf are the lines of the page for Prometheus with the bytes of a process in one direction.
func bytesOf(pid int, direction string) []string {
	return []string{"ebpf_network_io_bytes_total{", fmt.Sprintf(`process_pid="%d"`, pid), fmt.Sprintf(`network_io_direction=%q`, direction)}
}

// samples are the values of the lines of a page for Prometheus that contain all texts.
func samples(page string, texts ...string) (values []int64) {
	for line := range strings.Lines(page) {
		matches := !strings.HasPrefix(line, "#")
		for _, text := range texts {
			matches = matches && strings.Contains(line, text)
		}
		if !matches {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err == nil {
			values = append(values, int64(value))
		}
	}
	return values
}

// requireNoSampleTwice holds that no line of a page for Prometheus names the series of another.
func requireNoSampleTwice(t *testing.T, page string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		series := line[:strings.LastIndexByte(line, ' ')]
		require.False(t, !strings.HasPrefix(line, "#") && seen[series], "twice: %s", series)
		seen[series] = true
	}
}

// series is one series of sums in a file.
type series struct {
	name       string
	pid        int64
	attributes pcommon.Map
	start      pcommon.Timestamp
	last       int64
}

// metrics are the series of a file, by all that identifies them.
type metrics map[string]*series

func (m metrics) of(name string, pid int) (list []*series) {
	for _, s := range m {
		if s.name == name && s.pid == int64(pid) {
			list = append(list, s)
		}
	}
	return list
}

func text(attributes pcommon.Map, key string) string {
	value, ok := attributes.Get(key)
	if !ok {
		return ""
	}
	return value.AsString()
}

// readMetrics reads what the file exporter wrote and checks what is true of cumulative series: their start stays, their monotonic sums do
// not decrease, and no message has a series twice.
func readMetrics(t *testing.T, file string) metrics {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	all := metrics{}
	for line := range bytes.Lines(raw) {
		message, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, resource := range message.ResourceMetrics().All() {
			pid, _ := resource.Resource().Attributes().Get("process.pid")
			of := fmt.Sprint(resource.Resource().Attributes().AsRaw())
			for _, scope := range resource.ScopeMetrics().All() {
				require.Equal(t, "github.com/otelcol-ebpf/ebpfreceiver", scope.Scope().Name())
				for _, metric := range scope.Metrics().All() {
					if metric.Type() != pmetric.MetricTypeSum {
						continue
					}
					for _, p := range metric.Sum().DataPoints().All() {
						key := fmt.Sprint(of, metric.Name(), p.Attributes().AsRaw())
						require.False(t, seen[key], "twice in a message: %s", key)
						seen[key] = true
						all.add(t, key, metric, pid.Int(), p)
					}
				}
			}
		}
	}
	return all
}

func (m metrics) add(t *testing.T, key string, metric pmetric.Metric, pid int64, p pmetric.NumberDataPoint) {
	t.Helper()
	require.Positive(t, p.StartTimestamp())
	require.LessOrEqual(t, p.StartTimestamp(), p.Timestamp())
	before := m[key]
	if before != nil && before.start == p.StartTimestamp() && metric.Sum().IsMonotonic() {
		require.GreaterOrEqual(t, p.IntValue(), before.last, key)
	}
	m[key] = &series{name: metric.Name(), pid: pid, attributes: p.Attributes(), start: p.StartTimestamp(), last: p.IntValue()}
}
