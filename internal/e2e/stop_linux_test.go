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

// begun is the receiver's line when it has loaded its programs.
const begun = "The receiver has started"

// TestSIGTERMWhileStarting checks that a Collector whose receiver loads its programs, on a host with more to do than its CPUs can, ends, and that
// what had been sampled by then is exported.
func TestSIGTERMWhileStarting(t *testing.T) {
	for name, reload := range map[string]bool{"first start": false, "reload": true} {
		t.Run(name, func(t *testing.T) {
			const tries = 5 // a test that stands still meanwhile ends one that has started, or before anything was sampled
			for range tries {
				if s := endWhileStarting(t, reload); s.starting && s.samples > 0 {
					return
				}
			}
			require.Fail(t, "no Collector was ended while it started, with samples", "in %d tries", tries)
		})
	}
}

// TestMeasureSIGTERMWhileStarting holds how soon it ends, and how much was sampled.
func TestMeasureSIGTERMWhileStarting(t *testing.T) {
	for name, reload := range map[string]bool{"first start": false, "reload": true} {
		t.Run(name, func(t *testing.T) {
			s := endWhileStarting(t, reload)
			require.Less(t, s.took, 5*time.Second)
			require.True(t, s.starting)
			require.Greater(t, s.samples, int64(20), "of half a second on each CPU, in an interval of ten minutes")
		})
	}
}

// endedStart is how a Collector has ended that was starting.
type endedStart struct {
	took     time.Duration // from SIGTERM on
	starting bool          // until its end
	samples  int64         // that it has exported
}

// endWhileStarting has a Collector start, or read its configuration again, next to busy processes, and ends it amid that.
func endWhileStarting(t *testing.T, reload bool) (s endedStart) {
	t.Helper()
	needRoot(t)
	guest.SameOnEveryKernel(t)
	const busy = 8
	binary, program, file := distribution(t), seventy(t), filepath.Join(t.TempDir(), "profiles.json")
	c := launch(t, binary, fmt.Sprintf(crowdedStart, program, file), nil)
	if reload {
		c.eventually(begun)
	} else {
		c.eventually("Everything is ready")
	}
	var pids []int
	for range busy {
		works := exec.Command(program, endless)
		require.NoError(t, works.Start())
		defer func() {
			_ = works.Process.Kill()
			_ = works.Wait() // it was killed
		}()
		pids = append(pids, works.Process.Pid)
	}
	c.eventually("on_cpu: sampling")
	time.Sleep(500 * time.Millisecond) // in which they are sampled
	if reload {
		c.signal(syscall.SIGHUP)
		c.eventually("restart service")
	}
	before := strings.Count(c.log.String(), begun)
	asked := time.Now()
	c.signal(syscall.SIGTERM)
	require.Zero(t, c.exit(), "%s", &c.log)
	s.took = time.Since(asked)
	s.starting = strings.Count(c.log.String(), begun) == before && (reload || before == 0)
	for _, pid := range pids {
		s.samples += read(t, file, pid).samples
	}
	t.Logf("%+v", s)
	return s
}
