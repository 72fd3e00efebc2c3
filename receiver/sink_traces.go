// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"unsafe"

	"go.opentelemetry.io/collector/consumer"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// maxPendingTraces is how many deliveries are kept for a consumer that refuses them for
// now: those of a minute, one each second.
const maxPendingTraces = 60

// traceSink delivers spans.
type traceSink struct {
	*sink
	next    consumer.Traces
	builder *pdata.TracesBuilder
}

func newTraceSink(next consumer.Traces, logger *zap.Logger, version string, maxBytes uint64) *traceSink {
	return &traceSink{
		sink:    newSink(signalTraces, logger, maxPendingTraces, maxBytes),
		next:    next,
		builder: pdata.NewTracesBuilder(scopeName, version),
	}
}

// put hands over the requests that have ended.
func (s *traceSink) put(spans []*model.Spans) {
	chunk := s.queue.maxBytes / chunkShare
	chunks(splitSpans(spans, chunk), bytesOfSpans, chunk, s.putChunk)
}

// putChunk hands over what one delivery takes.
func (s *traceSink) putChunk(spans []*model.Spans) {
	d := &delivery{build: func() func() (message, bool) {
		return messages(s.builder.Messages(spans), s.next.ConsumeTraces)
	}}
	for _, of := range spans {
		p := part{process: of.Process, bytes: bytesOfSpans(of), records: uint64(len(of.Spans)), drop: func() { of.Spans = nil }}
		d.bytes += p.bytes
		d.parts = append(d.parts, p)
	}
	s.sink.put(d)
}

// splitSpans splits lists that are larger than a chunk.
func splitSpans(spans []*model.Spans, chunk uint64) []*model.Spans {
	var split []*model.Spans
	for _, of := range spans {
		chunks(of.Spans, func(span model.Span) uint64 { return bytesOfSpan(&span) }, chunk, func(some []model.Span) {
			split = append(split, &model.Spans{Process: of.Process, Spans: some})
		})
	}
	return split
}

// bytesOfSpans estimates the memory of the spans of a process.
func bytesOfSpans(of *model.Spans) uint64 {
	var bytes uint64
	for i := range of.Spans {
		bytes += bytesOfSpan(&of.Spans[i])
	}
	return bytes
}

func bytesOfSpan(s *model.Span) uint64 {
	return uint64(unsafe.Sizeof(model.Span{})) + uint64(len(s.Name)) + attributeBytes(s.Attributes)
}
