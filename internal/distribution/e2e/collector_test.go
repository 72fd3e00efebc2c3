// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/sigready"
)

// ready is the Collector's own line when all pipelines have started, and ours one that each line of a receiver of ours has.
const ready, ours = "Everything is ready", `"otelcol.component.id": "ebpf`

// binary returns the path of a program that make has built, from the module's root.
func binary(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../bin", name))
	require.NoError(t, err)
	require.FileExists(t, path, "make e2e builds it")
	return path
}

// output is what a program has printed so far; it may be read while it prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// collector is a running Collector.
type collector struct {
	cmd *exec.Cmd
	log output
}

// start starts the distribution with a configuration and waits until it is ready.
func start(t *testing.T, config string, args ...string) *collector {
	t.Helper()
	c := launch(t, config, args...)
	require.Eventually(t, func() bool {
		log := c.log.String()
		observes := strings.Contains(log, "The receiver has started") || strings.Contains(log, "The receiver observes nothing")
		return strings.Contains(log, ready) && (observes || !strings.Contains(log, ours))
	}, time.Minute, 50*time.Millisecond, "the Collector's log: %s", &c.log)
	c.awaitSignals(t)
	return c
}

// awaitSignals waits until the Collector listens for signals, which it does after it has said that it is ready.
func (c *collector) awaitSignals(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		asked, err := sigready.Asked(c.cmd.Process.Pid)
		require.NoError(t, err)
		return asked
	}, time.Minute, 20*time.Millisecond, "the Collector does not listen for signals: %s", &c.log)
	time.Sleep(signalDelay())
}

// inGuest reports whether this is a virtual machine of the kernel matrix, which is emulated and slow.
func inGuest() bool { return guest.Running() }

// signalDelay is how long a Collector may take from SIGINT to SIGTERM, for which it asks with the next instructions.
func signalDelay() time.Duration {
	if inGuest() {
		return time.Second
	}
	return 50 * time.Millisecond
}

// launch starts the distribution with a configuration.
func launch(t *testing.T, config string, args ...string) *collector {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	c := &collector{cmd: exec.Command(binary(t, distribution), append([]string{"--config", path}, args...)...)}
	sigready.Prepare(c.cmd)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // has ended already unless the test failed
	return c
}

// wait waits until the Collector has ended and returns its exit code.
func (c *collector) wait(t *testing.T) int {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	select {
	case <-ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		require.Fail(t, "the Collector does not end", "log: %s", &c.log)
		return -1
	}
}

// stop ends the Collector as an init system does.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, c.wait(t), "exit code; log: %s", &c.log)
}

// profilesPipeline is a configuration with a pipeline of profiles that needs no privileges.
func profilesPipeline(t *testing.T) string {
	return fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
exporters: {nop: }
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [nop]}}
`, freeport.Endpoint(t))
}
