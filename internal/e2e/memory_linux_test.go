// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// crowded profiles everything, as often as it can, within the least memory that may be configured, and serves the Collector's own metrics.
const crowded = `
receivers:
  ebpf:
    observe: {on_cpu: {period: 1ms, report_interval: 1s}}
    limits: {memory_mib: 32, cpu_percent: 100}
exporters: {nop: {}}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}}
  pipelines: {profiles: {receivers: [%s], exporters: [nop]}}
`

// anonymous is the anonymous memory of a process in bytes, /proc/PID/status's RssAnon.
func anonymous(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	require.Fail(t, "no RssAnon", "%s", text)
	return 0
}

// held is the memory that the receiver says it holds, in bytes, by its self metric.
func held(t *testing.T, address string) (total int64) {
	t.Helper()
	page := get(t, "http://"+address+"/metrics")
	parts := samples(page, "otelcol_ebpf_memory", "component=")
	require.NotEmpty(t, parts, "%s", page)
	for _, bytes := range parts {
		total += bytes
	}
	return total
}

// TestMemoryWithinLimits has thousands of short-lived processes sampled: what the receiver says it holds stays within the limit.
func TestMemoryWithinLimits(t *testing.T) { crowd(t) }

// TestMeasureMemoryWithinLimits holds that with what is not in the limit the Collector's memory, as the kernel counts it, stays within it, too:
// its difference to that of one without the receiver.
func TestMeasureMemoryWithinLimits(t *testing.T) {
	// Kernel maps are in the limit and not in this memory; Go's garbage, as much again as what is in use, is in this memory
	// and not in the limit.
	require.Less(t, crowd(t), int64(48<<20))
}

// crowd has thousands of short-lived processes sampled, checks what the receiver says it holds, and returns by how much more memory the Collector
// had at most than one without the receiver.
func crowd(t *testing.T) (more int64) {
	t.Helper()
	needRoot(t)
	binary := distribution(t)
	const none = "otlp: {protocols: {grpc: {endpoint: localhost:0}}}"
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	bare := start(t, binary, strings.Replace(fmt.Sprintf(crowded, port(freeport.Endpoint(t)), "otlp"), "receivers:\n  ebpf:", "receivers:\n  "+none+"\n  ebpf:", 1), nil)
	time.Sleep(time.Second)
	without := anonymous(t, bare.Process.Pid)

	itself := freeport.Endpoint(t)
	c := start(t, binary, fmt.Sprintf(crowded, port(itself), "ebpf"), nil)
	swarm := exec.Command(testbin.C(t, "../engine/testdata/swarm.c"), "3000", "1500", "500")
	require.NoError(t, swarm.Start())
	ended := make(chan error, 1)
	go func() { ended <- swarm.Wait() }()
	most, reported := int64(0), held(t, itself)
	require.Positive(t, reported)
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			require.NoError(t, err)
			running = false
		case <-look.C:
			reported = max(reported, held(t, itself))
		case <-time.After(50 * time.Millisecond):
			most = max(most, anonymous(t, c.Process.Pid))
		}
	}
	t.Logf("anonymous memory: %d KiB without the receiver, at most %d KiB with it; it reports that it holds at most %d KiB", without>>10, most>>10, reported>>10)
	require.LessOrEqual(t, reported, int64(32<<20))
	c.signal(syscall.SIGINT)
	require.Zero(t, c.exit())
	return most - without
}
