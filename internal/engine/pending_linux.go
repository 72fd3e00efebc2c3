// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"time"
)

const (
	// catchUpPause is the least time between two waits for events that are pending: one is enough for all processes of a drain.
	catchUpPause = 100 * time.Millisecond
	// catchUpWait bounds such a wait: the reader may need what its caller has locked.
	catchUpWait = 50 * time.Millisecond
)

// pending lets goroutines that discover a process which has exited wait until its events were read, which arrive without a wake-up.
type pending struct {
	flush func() error

	mu     sync.Mutex
	last   time.Time
	waiter chan struct{} // nil: nothing waits
}

// catchUp returns when the events that are pending were read, or soon after the last time; false where it did not wait. The reader of events
// itself must not call it.
func (p *pending) catchUp() bool {
	p.mu.Lock()
	if p.waiter != nil || time.Since(p.last) < catchUpPause {
		p.mu.Unlock()
		return false
	}
	done := make(chan struct{})
	p.waiter, p.last = done, time.Now()
	p.mu.Unlock()
	timer := time.NewTimer(catchUpWait)
	defer timer.Stop()
	if p.flush() == nil {
		select {
		case <-done:
		case <-timer.C:
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiter = nil
	return true
}

// read notes that all pending events were read.
func (p *pending) read() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiter != nil {
		close(p.waiter)
		p.waiter = nil
	}
}
