// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTimeOf does the work and returns its CPU time, 0 if that is not known.
func CPUTimeOf(work func()) time.Duration {
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
