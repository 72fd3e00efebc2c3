// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// crowded profiles everything, as often as it can, within the least memory that may be configured.
const crowded = `
receivers:
  ebpf:
    observe: {on_cpu: {period: 1ms, report_interval: 1s}}
    limits: {memory_mib: 32, cpu_percent: 100}
exporters: {nop: {}}
service:
  telemetry: {metrics: {level: none}}
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

// TestMemoryWithinLimits has thousands of short-lived processes sampled and compares the Collector's memory, as the kernel
// counts it, with that of one without the receiver.
func TestMemoryWithinLimits(t *testing.T) {
	needRoot(t)
	binary := distribution(t)
	const none = "otlp: {protocols: {grpc: {endpoint: localhost:0}}}"
	bare := start(t, binary, strings.Replace(fmt.Sprintf(crowded, "otlp"), "receivers:\n  ebpf:", "receivers:\n  "+none+"\n  ebpf:", 1), nil)
	time.Sleep(time.Second)
	without := anonymous(t, bare.Process.Pid)

	c := start(t, binary, fmt.Sprintf(crowded, "ebpf"), nil)
	swarm := exec.Command(testbin.C(t, "../engine/testdata/swarm.c"), "3000", "1500", "500")
	require.NoError(t, swarm.Start())
	ended := make(chan error, 1)
	go func() { ended <- swarm.Wait() }()
	most := int64(0)
	for running := true; running; {
		select {
		case err := <-ended:
			require.NoError(t, err)
			running = false
		case <-time.After(50 * time.Millisecond):
			most = max(most, anonymous(t, c.Process.Pid))
		}
	}
	t.Logf("anonymous memory: %d KiB without the receiver, at most %d KiB with it", without>>10, most>>10)
	// Kernel maps are in the limit and not in this memory; Go's garbage, as much again as what is in use, is in this memory
	// and not in the limit.
	require.Less(t, most-without, int64(48<<20))
	require.NoError(t, c.Process.Signal(os.Interrupt))
	require.Zero(t, c.exit())
}
