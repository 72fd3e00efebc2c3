// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"sync"
	"time"
)

const (
	// paceMin and paceMost bound the time between two readings of one memory map that can wait: the first changes
	// are looked at soon, many in a row less often.
	paceMin, paceMost = 2 * time.Millisecond, 50 * time.Millisecond
	// paceShare is how many times the CPU time of a reading the next one waits at least, up to paceLongest, after many
	// in a row.
	paceShare, paceLongest = 50, 10 * time.Second
)

// pace bounds what reading the memory map of one process costs: one whose mappings are many, and change all the time,
// shall not take more than a part of a CPU. It is safe for concurrent use.
type pace struct {
	mu    sync.Mutex
	began time.Time // the last reading
	last  time.Time // the map was read
	pause time.Duration
}

// read is told of a reading, when it began, and its CPU time.
func (p *pace) read(began, now time.Time, cost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) > 4*max(p.pause, paceMin) {
		p.pause = paceMin
	} else if p.pause < paceMost {
		p.pause = min(max(2*p.pause, paceMin), paceMost)
	}
	if p.pause >= paceMost {
		p.pause = min(max(cost*paceShare, paceMost), paceLongest)
	}
	p.began, p.last = began, now
}

// lastBegan is when the last reading began.
func (p *pace) lastBegan() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began
}

// wait is how long a reading that can wait has to.
func (p *pace) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.last.Add(p.pause).Sub(now), 0)
}
