// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTimeOf does the work and says what CPU time it took, 0 where that is not known.
func cpuTimeOf(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &before)
	work()
	if err != nil || unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &after) != nil {
		return 0
	}
	return time.Duration(after.Nano() - before.Nano())
}
