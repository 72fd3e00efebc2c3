// SPDX-License-Identifier: Apache-2.0

package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// RunApart runs f on a thread that exits after it, so that f may change its thread, such as the namespaces of it. That is never the main
// thread: Go keeps it when its goroutine ends, and /proc/self shows its namespaces as those of the process.
func RunApart(f func() error) error {
	done := make(chan error, 1)
	go runApart(f, done, make(chan struct{}))
	return <-done
}

// runApart closes begun when it holds a thread.
func runApart(f func() error, done chan<- error, begun chan<- struct{}) {
	runtime.LockOSThread()
	close(begun)
	if unix.Gettid() != unix.Getpid() {
		done <- f() // never unlocked: the thread exits with the goroutine
		return
	}
	defer runtime.UnlockOSThread()
	elsewhere := make(chan struct{})
	go runApart(f, done, elsewhere)
	<-elsewhere // it cannot get the main thread before
}
