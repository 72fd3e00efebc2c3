// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"sync"
	"sync/atomic"
)

// message sends one message of an interval.
type message func(context.Context) error

// messages are what sends each of batches.
func messages[B any](batches []B, consume func(context.Context, B) error) []message {
	out := make([]message, len(batches))
	for i, batch := range batches {
		out[i] = func(ctx context.Context) error { return consume(ctx, batch) }
	}
	return out
}

// delivery is one interval; the first `done` of its messages have been taken.
// They are built anew for each attempt, the same each time, because a consumer
// may have changed a message that it then refused.
type delivery struct {
	build func() []message
	over  func() // nil, or called when nothing is built any more; not of one that was dropped
	bytes uint64 // of what build holds
	done  int
}

// deliveries are the intervals that wait, oldest first, within two bounds: their
// number and their size. What is over goes, the oldest first, and is counted.
type deliveries struct {
	maxPending int
	maxBytes   uint64

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
	for len(q.waiting) > 1 && (len(q.waiting) > q.maxPending || q.held.Load() > q.maxBytes) {
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
