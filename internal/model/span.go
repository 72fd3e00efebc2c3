// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// Spans are what one process has done for requests, or has had done for it.
type Spans struct {
	Process *Process
	Spans   []Span
}

// Span is one request as one of its two sides has seen it.
type Span struct {
	// Name is the conventions', of low cardinality, such as GET /pay/{id}.
	Name string
	Kind SpanKind
	// TraceID is that of the context which the request carried, else one of its own; SpanID
	// is always its own. ParentID is the span of that context, zero where there is none.
	TraceID          [16]byte
	SpanID, ParentID [8]byte
	// Sampled: the sender of the context records the trace. It is true for a trace that begins
	// here.
	Sampled bool
	// Remote says that ParentID is known to be a span of another process.
	Remote     bool
	Start, End time.Time
	// Failed says that the request did, by the conventions for its side.
	Failed bool
	// Attributes have no key twice.
	Attributes []Attribute
}

// SpanKind is a side of a request.
type SpanKind uint8

// Sides of a request.
const (
	ServerSpan SpanKind = iota
	ClientSpan
)
