// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// ConsumeTraces notes the one attribute of each span.
func (c *taker) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	if err := c.hear(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range traces.ResourceSpans().All() {
		for _, span := range resource.ScopeSpans().At(0).Spans().All() {
			n, _ := span.Attributes().Get("n")
			c.took = append(c.took, n.Int())
		}
	}
	return nil
}

// spansOf is the span of one request; the number distinguishes it from others.
func spansOf(n int64) []*model.Spans {
	return []*model.Spans{{
		Process: &model.Process{ID: model.ProcessID{PID: 1}}, Spans: []model.Span{{Attributes: []model.Attribute{model.Int("n", n)}}},
	}}
}

// TestSpansComeAgain checks that what was refused for now comes later, in order and once, and that what is kept is bounded.
func TestSpansComeAgain(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTraceSink(next, zap.NewNop(), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	const more = 2
	for n := range int64(maxPendingTraces + more) {
		s.put(spansOf(n))
		eventually(t, "an attempt", func() bool { return next.attempts() > int(n) })
	}
	require.Equal(t, uint64(more), s.queue.dropped.Load())
	next.answers(nil)
	s.stop(t.Context())
	require.Len(t, next.taken(), maxPendingTraces)
	require.Equal(t, int64(more), next.taken()[0])
	require.Equal(t, int64(maxPendingTraces+more-1), next.taken()[maxPendingTraces-1])
	require.Zero(t, s.refused.Load()+s.queue.held.Load())
}

func TestSpanBytes(t *testing.T) {
	spans := spansOf(1)
	spans[0].Spans[0].Name = "GET"
	spans[0].Spans[0].Attributes = append(spans[0].Spans[0].Attributes, model.Text("path", "/four"))[:2:2]
	require.Equal(t, uint64(136+3+2*48+5), bytesOfSpans(spans[0]))
}
