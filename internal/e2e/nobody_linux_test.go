// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// asNobody starts a program as a user without privileges but these capabilities; a test that does not run as root starts it as its own
// user.
func asNobody(capabilities ...uintptr) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Dir = "/"
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities,
			}
		}
	}
}

// shared is a folder that is open to other users.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e2e-nobody-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// copied copies a program to where other users may run it: what is above the original may be closed to them.
func copied(t *testing.T, program, dir string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.Base(program))
	require.NoError(t, exec.Command("cp", program, path).Run())
	return path
}

// TestTwoCapabilities checks that CAP_BPF and CAP_PERFMON are all that is needed to profile the programs of one's own user, and
// that the log names the others.
func TestTwoCapabilities(t *testing.T) {
	c, program, file := twoCapabilities(t)
	load := exec.Command(program, endless)
	asNobody()(load)
	untilNamed(t, file, load)
	c.stop()
	text := c.log.String()
	require.Equal(t, 1, strings.Count(text, `"capability": "capabilities"`), "%s", text)
	for _, name := range []string{"CAP_SYS_PTRACE (to ", "CAP_DAC_READ_SEARCH (to ", "CAP_SYSLOG (to ", "CAP_CHECKPOINT_RESTORE (to "} {
		require.Contains(t, text, name)
	}
	require.NotContains(t, text, "CAP_BPF (to ")
	require.Contains(t, text, "grant CAP_SYS_ADMIN", "without it the kernel does not say what the programs cost")
}

// TestMeasureTwoCapabilities compares what they suffice to sample with the program's CPU time.
func TestMeasureTwoCapabilities(t *testing.T) {
	c, program, file := twoCapabilities(t)
	load := exec.Command(program, "2000")
	asNobody()(load)
	require.NoError(t, load.Run())
	c.stop()
	got, used := read(t, file, load.Process.Pid), load.ProcessState.UserTime()+load.ProcessState.SystemTime()
	require.InEpsilon(t, used.Seconds(), (time.Duration(got.samples) * 9 * time.Millisecond).Seconds(), 0.25)
	require.Greater(t, got.within("main hot")+got.within("main cold"), 0.9, "%v", got.stacks)
}

// twoCapabilities starts a Collector with two capabilities that profiles a program of its own user.
func twoCapabilities(t *testing.T) (c *collector, program, file string) {
	t.Helper()
	needRoot(t)
	dir := shared(t)
	program, file = copied(t, seventy(t), dir), filepath.Join(dir, "profiles.json")
	c = start(t, copied(t, distribution(t), dir), fmt.Sprintf(`
receivers: {ebpf: {targets: {include: [{exe: %q}]}, limits: {cpu_percent: 100}}}
exporters: {file: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [file]}}
`, program, file), asNobody(unix.CAP_BPF, unix.CAP_PERFMON))
	return c, program, file
}
