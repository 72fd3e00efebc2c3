// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// memoryGroup makes a control group with a limit of memory, of whichever version has that controller, and returns its folder, what puts a Collector there,
// and how often the kernel has killed a process of it.
func memoryGroup(t *testing.T, limit int) (folder string, enter func(*exec.Cmd), kills func() int) {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	limitFile, eventFile := "memory.limit_in_bytes", "memory.oom_control"
	parent := ""
	for line := range strings.Lines(string(groups)) {
		switch fields := strings.SplitN(strings.TrimSpace(line), ":", 3); fields[1] {
		case "memory":
			parent = "/sys/fs/cgroup/memory" + fields[2]
		case "":
			if parent == "" { // version 2: a group with processes has none below with controllers, but for the root
				parent, limitFile, eventFile = "/sys/fs/cgroup", "memory.max", "memory.events"
			}
		}
	}
	folder = filepath.Join(parent, fmt.Sprintf("otelcol-ebpf-test-%d-%d", os.Getpid(), limit>>20))
	err = os.Mkdir(folder, 0o755)
	if err == nil {
		t.Cleanup(func() {
			require.Eventually(t, func() bool { return os.Remove(folder) == nil }, time.Minute, 20*time.Millisecond, "the Collector has left")
		})
		err = os.WriteFile(filepath.Join(folder, limitFile), []byte(strconv.Itoa(limit)), 0o644)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		t.Skipf("no control group can be made that limits memory: %v", err)
	}
	require.NoError(t, err)
	enter = func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `echo 0 > "$0/cgroup.procs" && exec "$@"`, folder}, c.Args...)
		c.Path = "/bin/sh"
	}
	kills = func() int {
		text, err := os.ReadFile(filepath.Join(folder, eventFile))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if n, found := strings.CutPrefix(line, "oom_kill "); found {
				count, err := strconv.Atoi(strings.TrimSpace(n))
				require.NoError(t, err)
				return count
			}
		}
		return 0
	}
	return folder, enter, kills
}

// confined observes the whole host by default within memory_mib.
const confined = `
receivers:
  ebpf:
    limits: {memory_mib: %d, cpu_percent: 50}
exporters: {nop: {}}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}}
  pipelines:
    profiles: {receivers: [ebpf], exporters: [nop]}
    metrics: {receivers: [ebpf], exporters: [nop]}
`

// TestControlGroup checks that the receiver fits into the control group of the Collector: that it refuses to observe where the least that it needs is more
// than the limit, takes less than is configured where that fits, and is not killed by the kernel.
func TestControlGroup(t *testing.T) {
	needRoot(t)
	binary := distribution(t)
	for _, c := range []struct {
		name                  string
		limit, memoryMiB      int
		says                  []string
		observes, thenReduced bool
	}{
		{"too small", 64 << 20, 32, []string{
			"The receiver observes nothing", "receivers::ebpf::limits::memory_mib: 32 MiB do not fit", "is 64 MiB, and the least that is needed is 144 MiB",
			"raise the limit of the control group",
		}, false, false},
		{"the least", 144 << 20, 32, nil, true, false},
		{"reduced", 192 << 20, 256, []string{"receivers::ebpf::limits::memory_mib is reduced", `"configured_mib": 256`, `"used_mib": 64`, `"limit_mib": 192`}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder, enter, kills := memoryGroup(t, c.limit)
			itself := freeport.Endpoint(t)
			collector := start(t, binary, fmt.Sprintf(confined, c.memoryMiB, itself[strings.LastIndexByte(itself, ':')+1:]), enter)
			for _, text := range c.says {
				require.Contains(t, collector.log.String(), text)
			}
			require.Equal(t, c.thenReduced, strings.Contains(collector.log.String(), "is reduced"))
			seen := func() (n int64) { // samples and operations
				for _, value := range samples(get(t, "http://"+itself+"/metrics"), "otelcol_ebpf_events{") {
					n += value
				}
				return n
			}
			if c.observes { // by then symbols and unwind tables are read, too
				require.Eventually(t, func() bool { return seen() > 100 }, time.Minute, 100*time.Millisecond)
			} else {
				require.Zero(t, seen())
			}
			if c.observes && !c.thenReduced {
				const ready = "The receiver has started"
				collector.signal(syscall.SIGHUP)
				require.Eventually(t, func() bool {
					return strings.Count(collector.log.String(), ready) == 2 && seen() > 0
				}, time.Minute, 100*time.Millisecond, "it observes when the configuration was loaded again:\n%s", &collector.log)
				require.NotContains(t, collector.log.String(), "observes nothing")
			}
			require.Zero(t, kills(), "%s", folder)
			collector.stop()
			require.NotContains(t, collector.log.String(), "Killed")
		})
	}
}
