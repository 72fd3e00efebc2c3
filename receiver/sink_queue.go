// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"sync/atomic"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// delivery is one interval; the first `done` of its messages have been taken.
// It is kept as model values, because a consumer may have changed a message
// that it then refused.
type delivery struct {
	profiles []*model.Profile
	bytes    uint64
	done     int
}

// deliveries are the intervals that wait, oldest first, within two bounds: their
// number and their size. What is over goes, the oldest first, and is counted.
type deliveries struct {
	maxBytes uint64

	mu      sync.Mutex
	waiting []*delivery

	held, dropped atomic.Uint64 // bytes; intervals
}

// push appends the newest interval.
func (q *deliveries) push(d *delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, d)
	q.held.Add(d.bytes)
	q.trim()
}

// putBack puts an interval that was refused before all others.
func (q *deliveries) putBack(d *delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append([]*delivery{d}, q.waiting...)
	q.held.Add(d.bytes)
	q.trim()
}

// trim keeps to the bounds, but for the newest interval, which always stays.
func (q *deliveries) trim() {
	for len(q.waiting) > 1 && (len(q.waiting) > maxPending || q.held.Load() > q.maxBytes) {
		q.take()
		q.dropped.Add(1)
	}
}

// pop returns the oldest interval, or nil.
func (q *deliveries) pop() *delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	return q.take()
}

func (q *deliveries) take() *delivery {
	d := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.held.Add(-d.bytes)
	return d
}

// drop forgets everything and says how much it was.
func (q *deliveries) drop() int {
	n := 0
	for q.pop() != nil {
		n++
	}
	return n
}

// sampleOverhead is the memory of a sample without its frames.
const sampleOverhead = 150

// sizeOf estimates the memory of an interval. Frames are shared and belong to
// the symbolizer; a stack holds pointers to them.
func sizeOf(profiles []*model.Profile) uint64 {
	var bytes uint64
	for _, p := range profiles {
		for i := range p.Samples {
			bytes += sampleOverhead + 8*uint64(len(p.Samples[i].Frames))
		}
	}
	return bytes
}
