// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// taker is the next consumer: it answers as a test says and notes what it took.
type taker struct {
	mu     sync.Mutex
	answer func(context.Context) error
	asked  int
	took   []int64 // the value of the first sample of each message
}

func (*taker) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// hear counts an attempt and answers it.
func (c *taker) hear(ctx context.Context) error {
	c.mu.Lock()
	answer := c.answer
	c.asked++
	c.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

func (c *taker) ConsumeProfiles(ctx context.Context, p pprofile.Profiles) error {
	if err := c.hear(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return pdata.Fold(p, func(s pdata.FoldedSample) error {
		c.took = append(c.took, s.Value)
		return pdata.ErrStop
	})
}

func (c *taker) answers(answer func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *taker) taken() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int64{}, c.took...)
}

func (c *taker) attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

var errLater = errors.New("not now")

func refuse(context.Context) error { return errLater }

// interval is what was seen in one interval; the number distinguishes it from others.
func interval(n int64) []*model.Profile {
	return []*model.Profile{{
		Process:     &model.Process{ID: model.ProcessID{PID: 1}, ServiceName: "a"},
		Kind:        "on_cpu",
		SampleTypes: []model.ValueType{{Type: "samples", Unit: "count"}},
		Samples:     []model.Sample{{ThreadID: 1, Values: []int64{n}}},
	}}
}

func newTestSink(next *taker) *profileSink {
	s, _ := newObservedSink(next)
	return s
}

// newObservedSink returns a sink and what reads the fields of the errors that it logs.
func newObservedSink(next *taker) (*profileSink, func() []map[string]any) {
	core, logs := observer.New(zap.ErrorLevel)
	s := newProfileSink(next, zap.New(core), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	return s, func() (fields []map[string]any) {
		for _, entry := range logs.All() {
			fields = append(fields, entry.ContextMap())
		}
		return fields
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, time.Millisecond, what)
}

func TestSinkDelivers(t *testing.T) {
	next := &taker{}
	s := newTestSink(next)
	for n := range int64(3) {
		s.put(interval(n + 1))
	}
	eventually(t, "all three", func() bool { return len(next.taken()) == 3 })
	s.stop(t.Context())
	require.Equal(t, []int64{1, 2, 3}, next.taken())
	require.Zero(t, s.queue.dropped.Load()+s.refused.Load())
}

// TestSlowConsumerHoldsNobodyUp checks that put never waits and what does not fit is counted.
func TestSlowConsumerHoldsNobodyUp(t *testing.T) {
	release := make(chan struct{})
	next := &taker{answer: func(context.Context) error { <-release; return nil }}
	s := newTestSink(next)
	s.put(interval(1))
	eventually(t, "the consumer holds the first", func() bool { return next.attempts() == 1 })
	before := time.Now()
	for n := range int64(2 * maxPendingProfiles) {
		s.put(interval(n + 2))
	}
	require.Less(t, time.Since(before), time.Minute)
	require.Equal(t, uint64(maxPendingProfiles), s.queue.dropped.Load())
	close(release)
	s.stop(t.Context())
	require.Equal(t, []int64{1, 10, 11, 12, 13, 14, 15, 16, 17}, next.taken(), "the oldest went")
}

func TestRefusedForNowComesAgainInOrder(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestSink(next)
	for n := range int64(3) {
		s.put(interval(n + 1))
		eventually(t, "an attempt", func() bool { return next.attempts() > int(n) })
	}
	next.answers(nil)
	eventually(t, "the retry", func() bool { return len(next.taken()) == 3 })
	require.Equal(t, []int64{1, 2, 3}, next.taken())
	s.stop(t.Context())
	require.Zero(t, s.queue.dropped.Load()+s.refused.Load())
}

func TestTheOldestGoesFirst(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestSink(next)
	const more = 3
	for n := range int64(maxPendingProfiles + more) {
		s.put(interval(n + 1))
		eventually(t, "an attempt", func() bool { return next.attempts() > int(n) })
	}
	require.Equal(t, uint64(more), s.queue.dropped.Load())
	next.answers(nil)
	s.stop(t.Context())
	require.Equal(t, []int64{4, 5, 6, 7, 8, 9, 10, 11}, next.taken())
	require.Zero(t, s.refused.Load())
}

func TestRefusedForGood(t *testing.T) {
	next := &taker{answer: func(context.Context) error { return consumererror.NewPermanent(errLater) }}
	s := newTestSink(next)
	s.put(interval(1))
	eventually(t, "counted", func() bool { return s.refused.Load() == 1 })
	next.answers(nil)
	s.put(interval(2))
	eventually(t, "the next one", func() bool { return len(next.taken()) == 1 })
	s.stop(t.Context())
	require.Equal(t, []int64{2}, next.taken())
	require.Equal(t, 2, next.attempts(), "it was not tried again")
}

func TestStopDeliversWhatIsPending(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestSink(next)
	s.put(interval(1))
	eventually(t, "an attempt", func() bool { return next.attempts() > 0 })
	next.answers(nil)
	s.put(interval(2))
	s.stop(t.Context())
	require.Equal(t, []int64{1, 2}, next.taken())
}

func TestStopCountsWhatIsLeft(t *testing.T) {
	next := &taker{answer: refuse}
	s, logs := newObservedSink(next)
	s.put(interval(1))
	s.put(interval(2))
	s.stop(t.Context())
	require.Equal(t, []map[string]any{{"batches": uint64(2), "error": "not now"}}, logs())
	require.Equal(t, uint64(2), s.refused.Load())
	require.Empty(t, next.taken())
}

// TestStopGivesUpAConsumerThatHangs checks that shutdown ends when its context does.
func TestStopGivesUpAConsumerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &taker{answer: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		s, logs := newObservedSink(next)
		s.put(interval(1))
		eventually(t, "the consumer holds it", func() bool { return next.attempts() == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s.stop(ctx)
		require.Equal(t, []map[string]any{{"batches": uint64(1), "error": "context deadline exceeded"}}, logs())
		require.Equal(t, uint64(1), s.refused.Load())
	})
}

// TestStopLeavesAConsumerBehind checks that one that does not even heed its context does not keep the Collector from ending.
func TestStopLeavesAConsumerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		next := &taker{answer: func(context.Context) error { <-release; return nil }}
		s, logs := newObservedSink(next)
		s.put(interval(1))
		eventually(t, "the consumer holds it", func() bool { return next.attempts() == 1 })
		s.put(interval(2))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s.stop(ctx)
		require.Equal(t, []map[string]any{{
			"batches": uint64(2),
			"error":   "delivering profiles: the next consumer does not return: context deadline exceeded",
		}}, logs())
		require.Equal(t, uint64(2), s.refused.Load())
		close(release)
	})
}

// TestShutdownOutlivesARefusal checks that a Collector does not end with an error because the last delivery was refused.
func TestShutdownOutlivesARefusal(t *testing.T) {
	s, logs := newObservedSink(&taker{answer: refuse})
	r := &ebpfReceiver{engine: &fakeEngine{}, sinks: []*sink{s.sink}, forget: func() {}}
	s.put(interval(1))
	require.NoError(t, r.Shutdown(t.Context()))
	require.Len(t, logs(), 1)
	dropped := map[string]int64{}
	r.batchesDropped(engine.Stats{}, func(n int64, attributes ...attribute.KeyValue) {
		dropped[attributes[1].Value.AsString()] = n
	})
	require.Equal(t, map[string]int64{"refused": 1, "buffer_full": 0}, dropped)
}

// TestStopCountsMessages checks that of an interval of many messages only those count that were not taken.
func TestStopCountsMessages(t *testing.T) {
	next := &taker{}
	next.answers(func(context.Context) error {
		if next.attempts() > 1 {
			return errLater
		}
		return nil
	})
	s := newTestSink(next)
	s.put(threeMessages())
	s.stop(t.Context())
	require.Equal(t, uint64(2), s.refused.Load())
	require.Equal(t, []int64{1}, next.taken())
}

// threeMessages is an interval that is too large for two.
func threeMessages() (large []*model.Profile) {
	for n := range int64(3) {
		one := interval(n + 1)[0]
		for tid := range uint32(maxBatchSamples - 1) {
			one.Samples = append(one.Samples, model.Sample{ThreadID: tid + 2, Values: []int64{n + 1}})
		}
		large = append(large, one)
	}
	return large
}

// TestMessagesAreTakenOnce checks that of an interval of many messages only those come again that were not taken.
func TestMessagesAreTakenOnce(t *testing.T) {
	next := &taker{}
	next.answers(func(context.Context) error {
		if next.attempts() == 2 {
			return errLater
		}
		return nil
	})
	s := newTestSink(next)
	s.put(threeMessages())
	eventually(t, "the retry", func() bool { return len(next.taken()) >= 3 })
	s.stop(t.Context())
	require.Equal(t, []int64{1, 2, 3}, next.taken())
	require.Equal(t, 4, next.attempts())
}

// TestMessagesAreBuiltOneByOne checks that a message is built when the one before it was taken, that one which was refused is built anew, and that what is
// left at the end is counted.
func TestMessagesAreBuiltOneByOne(t *testing.T) {
	var events []string
	refused := false
	consume := func(_ context.Context, n int) error {
		events = append(events, fmt.Sprint("send ", n))
		if n == 2 && !refused {
			refused = true
			return errLater
		}
		return nil
	}
	build := func() func() (message, bool) {
		n := 0
		return messages(func() (int, bool) {
			if n++; n > 3 {
				return 0, false
			}
			events = append(events, fmt.Sprint("build ", n))
			return n, true
		}, consume)
	}
	s := newSink("metrics", zap.NewNop(), 10, 1<<20)
	s.charge = func(work func()) { work() }
	d := &delivery{build: build, bytes: 100}
	s.queue.push(d)
	require.False(t, s.deliver(t.Context()))
	require.Equal(t, []string{"build 1", "send 1", "build 2", "send 2"}, events)
	require.Equal(t, uint64(100), s.queue.held.Load())
	require.Equal(t, 2, s.left(d))
	events = nil
	require.True(t, s.deliver(t.Context()))
	require.Equal(t, []string{"build 1", "build 2", "send 2", "build 3", "send 3"}, events)
	require.Zero(t, s.queue.held.Load())
}
