// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// failedSpan is a span with each type of attribute.
func failedSpan() model.Span {
	return model.Span{
		Name: "GET /pay", Kind: model.ClientSpan, TraceID: [16]byte{1, 2}, SpanID: [8]byte{3}, ParentID: [8]byte{4},
		Sampled: true, Remote: true, Failed: true, Start: time.Unix(100, 7), End: time.Unix(101, 0),
		Attributes: []model.Attribute{
			model.Text("url.path", "/a\xff"), model.Int("http.response.status_code", 503), model.Bool("ebpf.tls", false),
			model.Lines("ebpf.body.content", "one\n\ttwo\x00"), model.List("http.request.header.accept", "a", "b\n"),
		},
	}
}

// TestTraces checks that each field of a span arrives as what it is, in the resource of its process.
func TestTraces(t *testing.T) {
	one, other := &model.Process{ID: model.ProcessID{PID: 7}, ServiceName: "shop"}, &model.Process{ID: model.ProcessID{PID: 8}}
	b := NewTracesBuilder("scope", "1.2")
	for range 2 { // a builder is used again
		messages := b.Batches([]*model.Spans{
			{Process: one, Spans: []model.Span{failedSpan()}}, {Process: other, Spans: []model.Span{{}}}, {Process: one, Spans: []model.Span{{}}}, {Process: other},
		})
		require.Len(t, messages, 1)
		resources := messages[0].ResourceSpans()
		require.Equal(t, 2, resources.Len())
		first := resources.At(0)
		require.Equal(t, SchemaURL, first.SchemaUrl())
		require.Equal(t, map[string]any{"service.name": "shop", "process.pid": int64(7)}, first.Resource().Attributes().AsRaw())
		scope := first.ScopeSpans().At(0)
		require.Equal(t, SchemaURL, scope.SchemaUrl())
		require.Equal(t, "scope", scope.Scope().Name())
		require.Equal(t, "1.2", scope.Scope().Version())
		require.Equal(t, 2, scope.Spans().Len())
		span := scope.Spans().At(0)
		require.Equal(t, "GET /pay", span.Name())
		require.Equal(t, ptrace.SpanKindClient, span.Kind())
		require.Equal(t, pcommon.TraceID{1, 2}, span.TraceID())
		require.Equal(t, pcommon.SpanID{3}, span.SpanID())
		require.Equal(t, pcommon.SpanID{4}, span.ParentSpanID())
		require.EqualValues(t, 0x301, span.Flags())
		require.Equal(t, pcommon.Timestamp(100e9+7), span.StartTimestamp())
		require.Equal(t, pcommon.Timestamp(101e9), span.EndTimestamp())
		require.Equal(t, ptrace.StatusCodeError, span.Status().Code())
		require.Equal(t, map[string]any{
			"url.path": "/a\ufffd", "http.response.status_code": int64(503), "ebpf.tls": false,
			"ebpf.body.content": "one\n\ttwo\ufffd", "http.request.header.accept": []any{"a", "b\ufffd"},
		}, span.Attributes().AsRaw())
		plain := scope.Spans().At(1)
		require.Equal(t, ptrace.SpanKindServer, plain.Kind())
		require.Equal(t, ptrace.StatusCodeUnset, plain.Status().Code())
		require.Zero(t, plain.Flags())
		require.True(t, plain.ParentSpanID().IsEmpty())
	}
	require.Empty(t, b.Batches(nil))
}

// TestTracesAreSplit checks that messages keep to the limit, lose nothing, and that their size is not estimated too low.
func TestTracesAreSplit(t *testing.T) {
	const limit = 4096
	var in []*model.Spans
	for pid := range uint32(5) {
		spans := make([]model.Span, 40)
		for i := range spans {
			spans[i] = failedSpan()
			spans[i].Attributes = append(spans[i].Attributes, model.Text("long", strings.Repeat("x", 10*i)))
		}
		in = append(in, &model.Spans{Process: &model.Process{ID: model.ProcessID{PID: pid}, Executable: "/bin/x"}, Spans: spans})
	}
	b, count := NewTracesBuilder("scope", "1"), 0
	for _, message := range b.batches(in, limit) {
		require.Less(t, (&ptrace.ProtoMarshaler{}).TracesSize(message), limit+1024)
		count += message.SpanCount()
	}
	require.Equal(t, 5*40, count)
	whole := b.batches(in[:1], 1<<30)
	require.Len(t, whole, 1)
	require.LessOrEqual(t, (&ptrace.ProtoMarshaler{}).TracesSize(whole[0]), b.size)
	require.Less(t, b.size, 2*(&ptrace.ProtoMarshaler{}).TracesSize(whole[0]))
	require.Len(t, b.batches(in[:1], 1), 40, "one span at least")
}
