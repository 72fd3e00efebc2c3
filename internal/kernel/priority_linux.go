// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"golang.org/x/sys/unix"
)

const (
	// raisedNice is the nice value of threads with a raised priority: such a thread gets some nine times the CPU time of one with the
	// default, and waits as much less (sched(7), sched_prio_to_weight in kernel/sched/core.c).
	raisedNice = -10
	// defaultNice is what getpriority(2) returns for the nice value 0: the system call returns 20 - nice.
	defaultNice = 20
)

// RaisePriority raises the scheduling priority of the calling thread, to which the goroutine must be locked, and returns a function that
// restores it. It changes nothing without CAP_SYS_NICE, and where the process does not have the default priority: its administrator has chosen that.
func RaisePriority() (restore func()) {
	const thisThread = 0
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, thisThread)
	if err != nil || nice != defaultNice || unix.Setpriority(unix.PRIO_PROCESS, thisThread, raisedNice) != nil {
		return func() {}
	}
	return func() { _ = unix.Setpriority(unix.PRIO_PROCESS, thisThread, 0) } // lowering needs no privilege
}
