// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// remembered keeps tasks on disk and watches by policies.
const remembered = `
extensions: {file_storage: {directory: %q}}
receivers:
  ebpf:
    observe: {}
    storage: file_storage
    policies:
%s
exporters:
  file: {path: %q, flush_interval: 100ms, append: true}
  debug:
service:
  telemetry: {metrics: {level: none}}
  extensions: [file_storage]
  pipelines: {logs: {receivers: [ebpf], exporters: [file]}, profiles: {receivers: [ebpf], exporters: [debug]}}
`

// TestConfigurationIsReadAgain has a Collector read its configuration again while a policy is silent: it stays so, what it has started
// goes on, and a policy that is new fires. What has run is on disk, and read back from there.
func TestConfigurationIsReadAgain(t *testing.T) {
	needRoot(t)
	binary, dir := distribution(t), t.TempDir()
	file := filepath.Join(dir, "logs.json")
	busy := &service{Cmd: exec.Command(seventy(t), "300000"), t: t} // milliseconds: it is killed before
	busy.run()
	rule := fmt.Sprintf("monitor: process_cpu, threshold: %g", 10/float64(runtime.NumCPU()))
	policy := func(name string) string {
		return strings.Replace(policyText(name, processText(busy.works), rule, computing), "duration: 15s", "duration: 1h", 1)
	}
	config := func(policies ...string) string {
		return fmt.Sprintf(remembered, dir, strings.Join(policies, ""), file)
	}
	c := start(t, binary, config(policy("first")), nil)
	fired := func(name string) func() bool { return func() bool { return len(triggered(t, file, name)) > 0 } }
	require.Eventually(t, fired("first"), 60*time.Second, 50*time.Millisecond, "%s", &c.log)

	path := c.Args[len(c.Args)-1]
	require.NoError(t, os.WriteFile(path, []byte(config(policy("second"), policy("first"))), 0o600))
	c.signal(syscall.SIGHUP)
	c.eventually("Tasks of the last 48 hours are remembered")
	require.Eventually(t, fired("second"), 60*time.Second, 50*time.Millisecond, "%s", &c.log)
	time.Sleep(5 * time.Second) // in which the first would fire, too
	c.stop()
	require.Len(t, triggered(t, file, "first"), 1)
	require.Len(t, triggered(t, file, "second"), 1)
	require.Len(t, eventsOf(t, file, "ebpf.task.started", "first"), 2)

	kept, err := filepath.Glob(filepath.Join(dir, "receiver_ebpf*"))
	require.NoError(t, err)
	require.Len(t, kept, 1, "the storage of the receiver")
	history, err := os.ReadFile(kept[0])
	require.NoError(t, err)
	for _, name := range []string{"first", "second"} {
		id, ok := triggered(t, file, name)[0].Attributes().Get("ebpf.task.id")
		require.True(t, ok)
		require.Contains(t, string(history), id.Str(), "the task of %s is remembered", name)
	}
}
