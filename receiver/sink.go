// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.uber.org/zap"
)

const (
	scopeName = "github.com/otelcol-ebpf/ebpfreceiver"
	// The first retry comes after minBackoff; each further one after twice the
	// time, up to maxBackoff.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// finalAttempt bounds the delivery of the last interval at shutdown.
	finalAttempt = 5 * time.Second
	// afterGivenUp is how long a consumer has to return after it was given up.
	afterGivenUp = time.Second
)

// Names of the signals whose records are counted where they are dropped.
const (
	signalLogs   = "logs"
	signalTraces = "traces"
)

// Reasons why a batch was dropped.
const (
	droppedRefused = "refused"
	droppedFull    = "buffer_full"
)

// sink delivers one signal to the next consumer from a goroutine of its own, so
// that a slow consumer holds up neither sampling nor the other signals.
type sink struct {
	signal string
	logger *zap.Logger
	charge func(work func())

	// ctx is that of deliveries; cancel ends one that the next consumer holds.
	ctx    context.Context
	cancel context.CancelFunc

	queue   deliveries
	arrived chan struct{} // the queue has got something
	ending  chan context.Context
	ended   chan lostAtEnd
	backoff time.Duration

	refused atomic.Uint64
}

func newSink(signal string, logger *zap.Logger, maxPending int, maxBytes uint64) *sink {
	ctx, cancel := context.WithCancel(context.Background())
	return &sink{
		signal: signal, logger: logger,
		ctx: ctx, cancel: cancel,
		queue:   deliveries{maxPending: maxPending, maxBytes: maxBytes},
		arrived: make(chan struct{}, 1),
		ending:  make(chan context.Context, 1),
		ended:   make(chan lostAtEnd, 1),
	}
}

// put hands over an interval. It never waits: if the queue is full, the oldest interval
// is dropped and counted.
func (s *sink) put(d *delivery) {
	s.queue.push(d)
	s.warnDropped(time.Now())
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// start begins to deliver; charge accounts for the work of building messages.
func (s *sink) start(charge func(work func())) {
	s.charge = charge
	go s.run()
}

// stop delivers what is pending, with one attempt each, and ends. What the next
// consumer does not take is lost: it is counted and logged. A consumer that holds
// a delivery is given up when ctx ends or after finalAttempt, and left behind when
// it does not heed that either.
func (s *sink) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, finalAttempt)
	defer cancel()
	defer context.AfterFunc(ctx, s.cancel)()
	defer s.cancel()
	s.ending <- ctx
	lost := s.await(ctx)
	if lost.batches == 0 {
		return
	}
	s.refused.Add(lost.batches)
	s.logger.Error(fmt.Sprintf("The last %s are lost: the next consumer did not take them", s.signal),
		zap.Uint64("batches", lost.batches), zap.Error(lost.why))
}

// lostAtEnd is what could not be delivered at the end. An interval of which no
// message was built counts as one batch.
type lostAtEnd struct {
	batches uint64
	why     error
}

// await waits for the goroutine to end, or gives it up.
func (s *sink) await(ctx context.Context) lostAtEnd {
	select {
	case lost := <-s.ended:
		return lost
	case <-ctx.Done():
	}
	select {
	case lost := <-s.ended:
		return lost
	case <-time.After(afterGivenUp):
		const inHand = 1
		return lostAtEnd{
			batches: uint64(s.queue.drop()) + inHand,
			why:     fmt.Errorf("delivering %s: the next consumer does not return: %w", s.signal, ctx.Err()),
		}
	}
}

func (s *sink) run() {
	retry := time.NewTimer(maxBackoff)
	retry.Stop()
	for {
		select {
		case <-s.arrived:
		case <-retry.C:
		case ctx := <-s.ending:
			s.ended <- s.finish(ctx)
			return
		}
		if s.deliver(s.ctx) {
			s.backoff = 0
			continue
		}
		s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
		retry.Reset(s.backoff)
	}
}

// deliver sends what is pending, oldest first, and reports whether nothing is left.
func (s *sink) deliver(ctx context.Context) bool {
	for {
		d := s.queue.pop()
		if d == nil {
			return true
		}
		if err := s.send(ctx, d); err != nil {
			s.queue.putBack(d)
			s.logger.Debug(fmt.Sprintf("The next consumer refuses %s for now", s.signal), zap.Error(err))
			return false
		}
		s.queue.done(d)
	}
}

// send delivers the messages of one interval that have not been taken yet. Where
// the consumer may take them later it returns an error.
func (s *sink) send(ctx context.Context, d *delivery) error {
	next := s.messages(d)
	for n := 0; ; n++ {
		send, ok := next()
		if !ok {
			break
		}
		if n < d.done {
			continue
		}
		err := send(ctx)
		if err != nil && !consumererror.IsPermanent(err) {
			return err
		}
		if err != nil {
			s.refused.Add(1)
			s.logger.Warn(fmt.Sprintf("The next consumer refused %s for good", s.signal), zap.Error(err))
		}
		d.done++
	}
	if d.over != nil {
		d.over()
	}
	return nil
}

// messages returns a function that builds the messages of an interval one by one, and charges what that costs.
func (s *sink) messages(d *delivery) func() (message, bool) {
	next := d.build()
	return func() (send message, ok bool) {
		s.charge(func() { send, ok = next() })
		return send, ok
	}
}

// left is how many messages of an interval were not taken.
func (s *sink) left(d *delivery) (n int) {
	next := s.messages(d)
	for _, ok := next(); ok; _, ok = next() {
		n++
	}
	return n - d.done
}

// finish makes one last attempt at everything and returns what is lost.
func (s *sink) finish(ctx context.Context) lostAtEnd {
	var lost lostAtEnd
	for d := s.queue.pop(); d != nil; d = s.queue.pop() {
		if err := s.send(ctx, d); err != nil {
			lost.batches += uint64(s.left(d))
			lost.why = err
		}
		s.queue.done(d)
	}
	return lost
}
