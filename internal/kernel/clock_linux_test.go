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
)

func TestBootTime(t *testing.T) {
	boot, err := BootTime()
	require.NoError(t, err)
	text, err := os.ReadFile("/proc/uptime")
	require.NoError(t, err)
	uptime, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	require.NoError(t, err)
	require.InDelta(t, uptime, time.Since(boot).Seconds(), 0.5)
}

func TestMonotonic(t *testing.T) {
	now, wall, err := Monotonic()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), wall(now), 10*time.Second)
	require.Equal(t, time.Second, wall(now+int64(time.Second)).Sub(wall(now)))
	later, _, err := Monotonic()
	require.NoError(t, err)
	require.GreaterOrEqual(t, later, now)
}

func TestThreadCPUTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, err := ThreadCPUTime()
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond)
	asleep, err := ThreadCPUTime()
	require.NoError(t, err)
	require.Less(t, asleep-start, 25*time.Millisecond, "sleep is no CPU time")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		now, err := ThreadCPUTime()
		require.NoError(t, err)
		if now-asleep > 10*time.Millisecond {
			return
		}
	}
	t.Fatal("work is CPU time")
}
