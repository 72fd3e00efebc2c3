// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/tracecontext"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Span returns the span of the request; peer are the attributes of the peer. Each call returns another span id, unless the request has a link
// with one.
func (r *Request) Span(peer []model.Attribute) model.Span {
	of, trace := r.record.Semantics.Spans, &r.record.Trace
	s := model.Span{
		Name: of.Name(&r.record), Kind: model.ServerSpan, Start: r.began, End: r.ended, Failed: r.record.ErrorType != "",
		TraceID: trace.TraceID, ParentID: trace.SpanID, Sampled: trace.Sampling != tracecontext.NotSampled,
	}
	if r.timed {
		s.End = r.began.Add(r.took)
	}
	if l := r.link; l != nil {
		s.TraceID, s.SpanID = l.trace, l.span
		if l.parent != [8]byte{} {
			s.ParentID = l.parent
		}
	}
	if s.SpanID == [8]byte{} {
		chance(s.SpanID[:])
	}
	if s.TraceID == [16]byte{} { // no context was carried
		s.ParentID = [8]byte{}
		chance(s.TraceID[:])
	}
	// It is unknown whether a client's carried context is of its own span or of its parent.
	s.Remote = r.record.Role == l7.RoleServer && s.ParentID != [8]byte{}
	if r.record.Role == l7.RoleClient {
		s.Kind = model.ClientSpan
	}
	s.Attributes = of.Attributes(make([]model.Attribute, 0, mostAttributes+len(peer)), &r.record)
	s.Attributes = append(s.Attributes, peer...)
	return s
}

// chance fills an id, 8 bytes at a time, with random values other than 0: it need not be secret.
func chance(id []byte) {
	for ; len(id) > 0; id = id[8:] {
		binary.NativeEndian.PutUint64(id, max(rand.Uint64(), 1))
	}
}
