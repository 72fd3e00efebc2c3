// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// sharing counts the requests of one program within the least memory that may be configured.
const sharing = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    observe: {network: {report_interval: 1s}}
    metrics: {resource: process}
    limits: {memory_mib: 32, cpu_percent: 100}
exporters:
  prometheus: {endpoint: %q, resource_to_telemetry_conversion: {enabled: true}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [ebpf], exporters: [prometheus]}}
`

// startAsking starts a program and waits until it has printed a line. The program ends with its input.
func startAsking(t *testing.T, program string, args ...string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command(program, args...)
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it has ended unless the test failed
	})
	_, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return cmd.Process.Pid, func() { require.NoError(t, io.Closer(input).Close()) }
}

// TestSeriesAreShared has processes take all series of requests before an honest one begins: each request of that one is exported with its route and status
// all the same.
func TestSeriesAreShared(t *testing.T) { seriesAreShared(t) }

// TestMeasureSeriesAreShared holds that the Collector's memory stays bounded meanwhile.
func TestMeasureSeriesAreShared(t *testing.T) { require.Less(t, seriesAreShared(t), int64(96<<20)) }

// seriesAreShared returns by how much the Collector's memory has grown.
func seriesAreShared(t *testing.T) (grown int64) {
	t.Helper()
	needRoot(t)
	binary, program := distribution(t), testbin.Go(t, "testdata/manyseries")
	page := freeport.Endpoint(t)
	c := start(t, binary, fmt.Sprintf(sharing, program, page), nil)
	before := anonymous(t, c.Process.Pid)
	for range 3 {
		_, end := startAsking(t, program, "many")
		defer end()
	}
	read := func() string { return get(t, "http://"+page+"/metrics") }
	const series = "http_server_request_duration_seconds_count{"
	require.Eventually(t, func() bool { return len(samples(read(), series, `otel_metric_overflow="true"`)) == 3 }, time.Minute, 100*time.Millisecond,
		"all series are taken")

	const count = 300
	pid, end := startAsking(t, program, "few", fmt.Sprint(count))
	defer end()
	own := fmt.Sprintf(`process_pid="%d"`, pid)
	for i, status := range []int{200, 201, 404, 503} {
		for _, side := range []string{"server", "client"} {
			require.Eventually(t, func() bool {
				of := samples(read(), strings.Replace(series, "server", side, 1), own, fmt.Sprintf(`http_route="/own-%c/{id}"`, 'a'+i), fmt.Sprintf(`http_response_status_code="%d"`, status))
				return len(of) == 1 && of[0] == count
			}, time.Minute, 100*time.Millisecond, "%s %d", side, status)
		}
	}
	require.Empty(t, samples(read(), series, own, "otel_metric_overflow"))
	grown = anonymous(t, c.Process.Pid) - before
	c.stop()
	return grown
}
