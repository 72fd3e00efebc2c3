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
		sink:    newSink("traces", logger, maxPendingTraces, maxBytes),
		next:    next,
		builder: pdata.NewTracesBuilder(scopeName, version),
	}
}

// put hands over the requests that have ended.
func (s *traceSink) put(spans []*model.Spans) {
	s.sink.put(&delivery{bytes: spanBytes(spans), build: func() []message {
		return messages(s.builder.Batches(spans), s.next.ConsumeTraces)
	}})
}

// spanBytes estimates the memory of spans.
func spanBytes(spans []*model.Spans) uint64 {
	const span = uint64(unsafe.Sizeof(model.Span{}))
	var bytes uint64
	for _, of := range spans {
		for i := range of.Spans {
			bytes += span + uint64(len(of.Spans[i].Name)) + attributeBytes(of.Spans[i].Attributes)
		}
	}
	return bytes
}
