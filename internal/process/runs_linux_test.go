// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestRuns checks that a process runs until it has exited, reaped or not, and that a later one with its pid is another.
func TestRuns(t *testing.T) {
	self := idOf(t, uint32(os.Getpid()))
	require.True(t, Runs("/proc", self))
	require.False(t, Runs("/proc", model.ProcessID{PID: self.PID, StartTicks: self.StartTicks + 1}))
	require.False(t, Runs(t.TempDir(), self))

	child := exec.Command("sleep", "60") // which guests have, too
	require.NoError(t, child.Start())
	id := idOf(t, uint32(child.Process.Pid))
	require.True(t, Runs("/proc", id))
	require.NoError(t, child.Process.Kill())
	require.Eventually(t, func() bool { return !Runs("/proc", id) }, time.Minute, time.Millisecond, "it has ended")
	require.Error(t, child.Wait(), "it was killed")
	require.False(t, Runs("/proc", id))
}

func idOf(t *testing.T, pid uint32) model.ProcessID {
	t.Helper()
	p := procFS{root: "/proc"}
	text, err := os.ReadFile(p.path(pid) + "/stat")
	require.NoError(t, err)
	s, err := parseStat(text)
	require.NoError(t, err)
	return model.ProcessID{PID: pid, StartTicks: s.startTicks}
}
