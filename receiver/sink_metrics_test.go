// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// ConsumeMetrics notes the value of the first point of each message.
func (c *taker) ConsumeMetrics(ctx context.Context, m pmetric.Metrics) error {
	if err := c.hear(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	metric := m.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0)
	c.took = append(c.took, metric.Sum().DataPoints().At(0).IntValue())
	return nil
}

// total is what was counted until the end of an interval.
func total(n int64) []*model.Metrics {
	return []*model.Metrics{{
		Process: &model.Process{ID: model.ProcessID{PID: 1}, ServiceName: "a"},
		Time:    time.Unix(n, 0),
		Metrics: []model.Metric{{
			Descriptor: &model.Descriptor{Name: "ebpf.network.io", Unit: "By"},
			Points:     []model.Point{{Start: time.Unix(0, 0), Int: n}},
		}},
	}}
}

func newTestMetricSink(next *taker) *metricSink {
	s := newMetricSink(next, nil, zap.NewNop(), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	return s
}

// TestMetricsComeAgain checks that intervals that were refused for now come later, in order, and the last one at the end.
func TestMetricsComeAgain(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestMetricSink(next)
	s.put(total(1))
	eventually(t, "an attempt", func() bool { return next.attempts() > 0 })
	s.put(total(2))
	next.answers(nil)
	s.put(total(3))
	s.stop(t.Context())
	require.Equal(t, []int64{1, 2, 3}, next.taken())
	require.Zero(t, s.queue.dropped.Load()+s.refused.Load()+s.queue.held.Load())
}

// TestTheOldestMetricsGoFirst checks that what is kept is bounded, and what goes is counted.
func TestTheOldestMetricsGoFirst(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestMetricSink(next)
	const more = 2
	for n := range int64(maxPendingMetrics + more) {
		s.put(total(n + 1))
		eventually(t, "an attempt", func() bool { return next.attempts() > int(n) })
	}
	require.Equal(t, uint64(more), s.queue.dropped.Load())
	next.answers(nil)
	s.stop(t.Context())
	require.Len(t, next.taken(), maxPendingMetrics)
	require.Equal(t, int64(more+1), next.taken()[0])
}

func TestMetricBytes(t *testing.T) {
	require.Equal(t, uint64(80), metricBytes(total(1)), "one number")
	histogram := total(1)
	histogram[0].Metrics[0].Points[0].Histogram = &model.Histogram{Bounds: []float64{1, 2, 3}, Buckets: make([]uint64, 4)}
	require.Equal(t, uint64(80+88+4*8), metricBytes(histogram))
	histogram[0].Metrics[0].Points[0].Histogram.Exponential = &model.Exponential{}
	require.Equal(t, uint64(80+88+4*8+24), metricBytes(histogram))
}

// TestSinksOfBothSignals checks that each signal has a sink of its own, that both share the memory, and that they are
// stopped at the same time.
func TestSinksOfBothSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profiles, metrics := &taker{}, &taker{}
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		profiles.answers(hang)
		metrics.answers(hang)
		r := newProfiles(t, createDefaultConfig()).(*ebpfReceiver)
		r.profiles, r.metrics, r.engine = profiles, metrics, &fakeEngine{}
		var err error
		r.deliveries, err = newReport(r.settings)
		require.NoError(t, err)
		hooks := r.makeSinks(1 << 20)
		for _, s := range r.sinks {
			require.Equal(t, uint64(1<<16), s.queue.maxBytes)
			s.start(r.engine.Charge)
		}
		hooks.Profiles(interval(1))
		hooks.Metrics(total(2))
		eventually(t, "both wait", func() bool { return profiles.attempts()+metrics.attempts() == 2 })
		hooks.Profiles(interval(3))
		hooks.Metrics(total(4))
		require.Equal(t, profileBytes(interval(1))+metricBytes(total(2))+profileBytes(interval(3))+metricBytes(total(4)), hooks.Held(), "what is being delivered counts")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		before := time.Now()
		require.NoError(t, r.Shutdown(ctx))
		require.Less(t, time.Since(before), time.Minute)
		require.Equal(t, []uint64{2, 2}, []uint64{r.sinks[0].refused.Load(), r.sinks[1].refused.Load()})
		require.Zero(t, hooks.Held())
	})
}

// TestMetricsAreTurnedOff checks that what the configuration turns off is not delivered.
func TestMetricsAreTurnedOff(t *testing.T) {
	c, err := load(t, "config.yaml", "ebpf/metrics")
	require.NoError(t, err)
	off := turnedOff(c.Metrics.MetricsConfig)
	require.Equal(t, map[string]bool{"ebpf.tcp.rtt": true, "ebpf.network.io": true}, off)
	require.Empty(t, turnedOff(createDefaultConfig().(*Config).Metrics.MetricsConfig))

	next := &taker{}
	s := newMetricSink(next, off, zap.NewNop(), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	s.put(total(1))
	both := total(2)
	other := total(3)[0].Metrics[0]
	other.Descriptor = &model.Descriptor{Name: "ebpf.tcp.resets"}
	both[0].Metrics = append(both[0].Metrics, other)
	s.put(both)
	s.stop(t.Context())
	require.Equal(t, []int64{3}, next.taken())
}
