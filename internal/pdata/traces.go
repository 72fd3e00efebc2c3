// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TracesBuilder turns model spans into OTLP traces. It is reused from interval to
// interval and not safe for concurrent use. It keeps no model value after a method has
// returned.
type TracesBuilder struct {
	from instrumentation

	out ptrace.Traces
	// size is an upper bound of the message's bytes in protobuf.
	size int
	// scopes has the one scope of each process's resource.
	scopes map[*model.Process]ptrace.ScopeSpans
}

var _ eventBuilder[model.Span, ptrace.Traces] = (*TracesBuilder)(nil)

// NewTracesBuilder returns a builder whose spans come from the named instrumentation
// scope.
func NewTracesBuilder(scopeName, scopeVersion string) *TracesBuilder {
	return &TracesBuilder{from: instrumentation{scopeName, scopeVersion}, scopes: map[*model.Process]ptrace.ScopeSpans{}}
}

// Batches puts the spans into as many messages as it takes to have about
// [MaxBatchBytes] in each. A message holds at least one span, even when that exceeds
// the limit.
func (b *TracesBuilder) Batches(in []*model.Spans) []ptrace.Traces {
	return b.batches(in, MaxBatchBytes)
}

func (b *TracesBuilder) batches(in []*model.Spans, maxBytes int) []ptrace.Traces {
	return collect(b.messages(in, maxBytes))
}

// Messages returns a function that builds the messages of [TracesBuilder.Batches] one by one, so that no more than one need be in memory. It returns false
// after the last one.
func (b *TracesBuilder) Messages(in []*model.Spans) func() (ptrace.Traces, bool) {
	return b.messages(in, MaxBatchBytes)
}

func (b *TracesBuilder) messages(in []*model.Spans, maxBytes int) func() (ptrace.Traces, bool) {
	return batch(b, in, func(of *model.Spans) events[model.Span] { return events[model.Span]{of.Process, of.Spans} }, maxBytes)
}

func (b *TracesBuilder) begin() { b.out, b.size = ptrace.NewTraces(), 0 }

func (b *TracesBuilder) bytes() int { return b.size }

// end returns the message and forgets it.
func (b *TracesBuilder) end() ptrace.Traces {
	out := b.out
	b.out = ptrace.Traces{}
	clear(b.scopes)
	return out
}

// spanKinds are what sides of requests are in OTLP.
var spanKinds = [...]ptrace.SpanKind{model.ServerSpan: ptrace.SpanKindServer, model.ClientSpan: ptrace.SpanKindClient}

// Flags of a span, by the trace proto: the lowest bit is W3C's, and two say that it is
// known that the parent is of another process.
const (
	flagSampled      = 1
	flagRemoteParent = 0x100 | 0x200
)

// sizeSpan is an upper bound of a span's bytes without its name and attributes: two
// times, flags, kind, status and the ids of trace, span and parent.
const sizeSpan = sizeHeader + 3*sizeFixed + 2*sizeNumber + sizeHeader + (2 + 16) + 2*(2+8)

func (b *TracesBuilder) add(process *model.Process, s *model.Span) {
	span := b.scope(process).Spans().AppendEmpty()
	span.SetName(validText(s.Name))
	span.SetKind(spanKinds[s.Kind])
	span.SetTraceID(s.TraceID)
	span.SetSpanID(s.SpanID)
	span.SetParentSpanID(s.ParentID)
	span.SetFlags(spanFlags(s))
	span.SetStartTimestamp(timestamp(s.Start))
	span.SetEndTimestamp(timestamp(s.End))
	if s.Failed {
		span.Status().SetCode(ptrace.StatusCodeError)
	}
	b.size += sizeSpan + sizeString(len(s.Name)) + putAttributes(span.Attributes(), s.Attributes)
}

func spanFlags(s *model.Span) uint32 {
	var flags uint32
	if s.Sampled {
		flags |= flagSampled
	}
	if s.Remote {
		flags |= flagRemoteParent
	}
	return flags
}

// scope returns where the spans of a process go, in a resource of its own.
func (b *TracesBuilder) scope(process *model.Process) ptrace.ScopeSpans {
	if scope, ok := b.scopes[process]; ok {
		return scope
	}
	resource := b.out.ResourceSpans().AppendEmpty()
	scope := resource.ScopeSpans().AppendEmpty()
	b.scopes[process] = scope
	b.size += b.from.put(resource, scope, process)
	return scope
}
