// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"sync"
	"time"
)

const (
	// paceMin and paceMost bound the time between two deferrable readings of one memory map: the first changes are read soon, many in a row
	// less often.
	paceMin, paceMost = 2 * time.Millisecond, 50 * time.Millisecond
	// paceCalm is how many pauses, or how many times paceMost if that is longer, must pass between two readings for the second one to count
	// as the first again. Readings that each come a little late, as on a busy machine, are still many in a row.
	paceCalm = 4
	// paceShare is how many times the CPU time of a reading the next one waits at least, up to paceLongest, after many in a row.
	paceShare, paceLongest = 50, 10 * time.Second
)

// Pace bounds the cost of reading the memory map of one process: one with many mappings that change all the time must not take more than a
// part of a CPU. It is safe for concurrent use.
type Pace struct {
	mu    sync.Mutex
	user  Account   // of the process, as it was when its map was read
	began time.Time // the last reading
	last  time.Time // the map was read
	pause time.Duration
}

// Read records a reading, its beginning, its CPU time and the user of the process. It reports whether there were many in a row.
func (p *Pace) Read(user Account, began, now time.Time, cost time.Duration) (often bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if began.Sub(p.last) > paceCalm*max(p.pause, paceMost) {
		p.pause = paceMin
	} else if p.pause < paceMost {
		p.pause = min(max(2*p.pause, paceMin), paceMost)
	}
	if p.pause >= paceMost {
		p.pause = min(max(cost*paceShare, paceMost), paceLongest)
	}
	p.user, p.began, p.last = user, began, now
	return p.often()
}

// Often reports whether there were many readings in a row.
func (p *Pace) Often() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.often()
}

// often is Often with the lock held.
func (p *Pace) often() bool { return p.pause >= paceMost }

// LastUser is the user of the process at the last reading of its map.
func (p *Pace) LastUser() Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.user
}

// LastBegan is when the last reading began.
func (p *Pace) LastBegan() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began
}

// Wait is how long a deferrable reading must wait.
func (p *Pace) Wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.last.Add(p.pause).Sub(now), 0)
}
