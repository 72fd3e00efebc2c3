// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

const crowdedStart = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    observe: {on_cpu: {period: 9ms, report_interval: 10m}, off_cpu: {}, memory: {}, network: {}}
exporters: {file: {path: %q, append: true, flush_interval: 100ms}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [file]}, metrics: {receivers: [ebpf], exporters: [file]}}
`

// TestSIGTERMWhileStarting checks that a Collector whose receiver loads its programs, on a host with more to do than its CPUs can, ends
// soon, and that what had been sampled by then is exported.
func TestSIGTERMWhileStarting(t *testing.T) {
	needRoot(t)
	guest.SameOnEveryKernel(t)
	const busy, most, begun = 8, 5 * time.Second, "The receiver has started"
	for name, reload := range map[string]bool{"first start": false, "reload": true} {
		t.Run(name, func(t *testing.T) {
			binary, program, file := distribution(t), seventy(t), filepath.Join(t.TempDir(), "profiles.json")
			c := launch(t, binary, fmt.Sprintf(crowdedStart, program, file), nil)
			if reload {
				c.eventually(begun)
			} else {
				c.eventually("Everything is ready")
			}
			var pids []int
			for range busy {
				works := exec.Command(program, "120000") // milliseconds: it is killed before
				require.NoError(t, works.Start())
				t.Cleanup(func() {
					_ = works.Process.Kill()
					_ = works.Wait() // it was killed
				})
				pids = append(pids, works.Process.Pid)
			}
			c.eventually("on_cpu: sampling")
			time.Sleep(500 * time.Millisecond) // in which they are sampled
			if reload {
				require.NoError(t, c.Process.Signal(syscall.SIGHUP))
				c.eventually("restart service")
			}
			before := strings.Count(c.log.String(), begun)
			asked := time.Now()
			require.NoError(t, c.Process.Signal(syscall.SIGTERM))
			require.Zero(t, c.exit(), "%s", &c.log)
			took := time.Since(asked)
			t.Logf("SIGTERM took %s", took)
			require.Less(t, took, most, "%s", &c.log)
			require.Equal(t, before, strings.Count(c.log.String(), begun), "it was starting")
			samples := int64(0)
			for _, pid := range pids {
				samples += read(t, file, pid).samples
			}
			require.Greater(t, samples, int64(20), "of half a second on each CPU, in an interval of ten minutes")
		})
	}
}
