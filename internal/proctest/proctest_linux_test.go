// SPDX-License-Identifier: Apache-2.0

package proctest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOfAChild has a child that reads its input, and then ends.
func TestOfAChild(t *testing.T) {
	before, err := ReadStat(Process(os.Getpid()))
	require.NoError(t, err)
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	folder := Process(child.Process.Pid)
	require.Eventually(t, func() bool { return WaitsIn(folder, 0, unix.SYS_READ) }, time.Minute, time.Millisecond)
	require.Equal(t, []string{folder + "/task/" + folder[len("/proc/"):]}, Threads(child.Process.Pid))
	require.False(t, WaitsIn(folder, 1, unix.SYS_READ), "on another descriptor")
	require.False(t, WaitsIn(folder, 0, unix.SYS_WRITE), "in another call")
	s, err := ReadStat(folder)
	require.NoError(t, err)
	require.Equal(t, byte('S'), s.State)
	require.Equal(t, os.Getpid(), s.Parent)
	require.GreaterOrEqual(t, s.StartTicks, before.StartTicks)
	require.False(t, HasEnded(child.Process.Pid))
	require.NoError(t, in.Close())
	require.Eventually(t, func() bool { return HasEnded(child.Process.Pid) }, time.Minute, time.Millisecond)
	require.NoError(t, child.Wait())
	require.False(t, HasEnded(child.Process.Pid), "nothing is known of it")
	require.Empty(t, Threads(child.Process.Pid))
	_, err = ReadStat(folder)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestNames has names of processes with parentheses, and a stat that is cut.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]Stat{
		"7 (a) R 9 (b) S 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1234 0\n": {State: 'S', Parent: 5, StartTicks: 1234},
		"7 (a) Z 5 0 0": {},
	} {
		require.NoError(t, os.WriteFile(dir+"/stat", []byte(text), 0o600))
		got, err := ReadStat(dir)
		require.Equal(t, want, got)
		require.Equal(t, want == Stat{}, err != nil)
	}
}
