// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBootTime compares with the uptime before and after: the thread may stand still in between.
func TestBootTime(t *testing.T) {
	uptime := func() time.Duration {
		text, err := os.ReadFile("/proc/uptime")
		require.NoError(t, err)
		seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		require.NoError(t, err)
		return time.Duration(seconds * float64(time.Second))
	}
	least, began := uptime(), time.Now()
	boot, err := BootTime()
	require.NoError(t, err)
	ended, most := time.Now(), uptime()
	const tolerance = time.Second / 2
	require.WithinRange(t, boot, began.Add(-most-tolerance), ended.Add(-least+tolerance))
}

func TestMonotonic(t *testing.T) {
	began := time.Now()
	now, wall, err := Monotonic()
	require.NoError(t, err)
	require.WithinRange(t, wall(now), began, time.Now())
	require.Equal(t, time.Second, wall(now+int64(time.Second)).Sub(wall(now)))
	later, _, err := Monotonic()
	require.NoError(t, err)
	require.GreaterOrEqual(t, later, now)
}

func TestThreadCPUTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const sleep = 50 * time.Millisecond
	began := time.Now()
	start, err := ThreadCPUTime()
	require.NoError(t, err)
	for left := unix.NsecToTimespec(sleep.Nanoseconds()); ; { // the thread's, not the goroutine's
		if err := unix.Nanosleep(&left, &left); err != unix.EINTR {
			require.NoError(t, err)
			break
		}
	}
	asleep, err := ThreadCPUTime()
	require.NoError(t, err)
	require.LessOrEqual(t, asleep-start, time.Since(began)-sleep+time.Millisecond, "sleep is no CPU time")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		now, err := ThreadCPUTime()
		require.NoError(t, err)
		if now-asleep > 10*time.Millisecond {
			return
		}
	}
	t.Fatal("work is CPU time")
}
