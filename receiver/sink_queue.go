// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// message sends one message of an interval.
type message func(context.Context) error

// messages are what sends each of the batches that next builds one by one.
func messages[B any](next func() (B, bool), consume func(context.Context, B) error) func() (message, bool) {
	return func() (message, bool) {
		batch, ok := next()
		return func(ctx context.Context) error { return consume(ctx, batch) }, ok
	}
}

// delivery is one interval; the first `done` of its messages have been taken.
// They are built one by one, so that no more than one is in memory, and anew for each
// attempt, the same each time, because a consumer may have changed a message that it then
// refused.
type delivery struct {
	build func() (next func() (message, bool))
	over  func() // nil, or called when nothing is built any more; not of one that was dropped
	bytes uint64 // of what build holds
	parts []part // of bytes, by process; none where a delivery is dropped as a whole
	done  int
}

// deliveries are the intervals that wait, oldest first, within two bounds: their
// number and their size. Of excess deliveries the oldest are dropped; of excess
// bytes those of the process with most (see trimBytes). Both are counted.
type deliveries struct {
	maxPending int
	maxBytes   uint64

	mu      sync.Mutex
	waiting []*delivery

	// held is the bytes of what waits and of what is being delivered, dropped how many intervals.
	held, dropped atomic.Uint64
	// records is how many log records and spans were dropped.
	records atomic.Uint64
	// unlogged is what was dropped since warned, when dropped records were last logged.
	unlogged unlogged
	warned   time.Time
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
	q.trim()
}

// trim keeps to the bounds, except for the last delivery or part, which always stays.
func (q *deliveries) trim() {
	for len(q.waiting) > 1 && len(q.waiting) > q.maxPending {
		q.dropOldest()
	}
	q.trimBytes()
}

// pop returns the oldest interval, or nil. It is held until it is put back or done.
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
	return d
}

// done is called with an interval that is not held any more.
func (q *deliveries) done(d *delivery) { q.held.Add(-d.bytes) }

// drop forgets everything and says how much it was.
func (q *deliveries) drop() int {
	n := 0
	for d := q.pop(); d != nil; d = q.pop() {
		q.done(d)
		n++
	}
	return n
}
