// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package budget

import "time"

// CPUTimeOf does the work and returns 0: the CPU time of a thread is read on Linux alone.
func CPUTimeOf(work func()) time.Duration {
	work()
	return 0
}
