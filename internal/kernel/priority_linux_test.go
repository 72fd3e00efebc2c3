// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// niceOfThread returns the nice value of the calling thread.
func niceOfThread(t *testing.T) int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	return 20 - raw
}

func TestRaisePriority(t *testing.T) {
	needRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 0))

	restore := RaisePriority()
	require.Equal(t, -10, niceOfThread(t))
	again := RaisePriority()
	again()
	require.Equal(t, -10, niceOfThread(t), "a nested call neither raises nor restores")
	restore()
	require.Equal(t, 0, niceOfThread(t))

	require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 5))
	RaisePriority()()
	require.Equal(t, 5, niceOfThread(t), "a priority that was chosen stays")
	require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 0))
}
