// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// BootTime returns the wall-clock time at which CLOCK_BOOTTIME was zero, as the clocks are now. Callers repeat it from time to time, since
// the wall clock is stepped and slewed.
func BootTime() (time.Time, error) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return time.Time{}, fmt.Errorf("reading CLOCK_BOOTTIME: %w", err)
	}
	return time.Now().Add(-time.Duration(boot.Nano())), nil
}

// Monotonic reads CLOCK_MONOTONIC, in nanoseconds, and returns a function that converts its times to the wall clock, as the clocks are now.
func Monotonic() (now int64, wall func(int64) time.Time, err error) {
	var monotonic unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
		return 0, nil, fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
	}
	now = monotonic.Nano()
	zero := time.Now().Add(-time.Duration(now))
	return now, func(ns int64) time.Time { return zero.Add(time.Duration(ns)) }, nil
}

// ThreadCPUTime returns the CPU time that the calling thread has used. Lock the
// goroutine to its thread around a pair of calls.
func ThreadCPUTime() (time.Duration, error) {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		return 0, fmt.Errorf("reading CLOCK_THREAD_CPUTIME_ID: %w", err)
	}
	return time.Duration(used.Nano()), nil
}
