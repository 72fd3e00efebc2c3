// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/tracecontext"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Request is an exchange as it is exported by itself.
type Request struct {
	Connection
	began time.Time // its first byte, or that of its response if the request was not captured
	ended time.Time // its last byte, or when it was given up
	// took is the duration, if timed is set.
	took   time.Duration
	timed  bool
	slow   bool
	failed bool
	record l7.Record
	ends   ends
	// link is that of its span, nil if its other side was not found.
	link *link
	// sample is its content, nil unless it is exported as a sample.
	sample *sample
	// kept is the number of the journal's lists that have the request, including lists that were taken and are not exported yet.
	kept int
}

// newRequest copies an exchange for export. wall converts monotonic time, in ns, to wall time.
func newRequest(conn Connection, e *l7.Exchange, target string, redact *Redaction, wall func(ns int64) time.Time) *Request {
	return new(Request).take(conn, e, target, redact, &l7.RecordWriter{}, wall)
}

// take copies an exchange for export into an empty request. wall converts monotonic time, in ns, to wall time.
func (r *Request) take(conn Connection, e *l7.Exchange, target string, redact *Redaction, w *l7.RecordWriter, wall func(ns int64) time.Time) *Request {
	r.Connection, r.ended, r.failed = conn, wall(endOf(e)), e.Operation.Failed(e)
	r.began = wall(cmp.Or(e.Request.First, e.Response.First, e.Request.Last, e.Response.Last))
	ns, timed := Duration(e)
	r.took, r.timed = time.Duration(ns), timed
	r.ends, r.link = ends{e.Request.Position, e.Response.Position, e.Request.First, endOf(e)}, nil
	o := &r.record
	o.Semantics, o.Role, o.TLS, o.Peer = e.Operation.Semantics(), e.Role, conn.TLS, conn.Peer
	o.ErrorType, o.Target, o.Sizes = e.ErrorType, target, e.Sizes()
	w.Begin(o)
	e.Operation.Record(e, redact, w)
	w.End()
	return r
}

// endOf returns when an exchange ended, in monotonic ns: its last byte, or when the request was given up.
func endOf(e *l7.Exchange) int64 { return max(e.Request.Last, e.Response.Last, e.Ended) }

// bytes returns the memory of the request.
func (r *Request) bytes() uint64 { return requestBytes + uint64(r.record.Bytes) + r.sample.bytes() }

// Log returns the log of the request; peer are the attributes of the peer. The request's own attributes are in room.
func (r *Request) Log(room *Room, peer []model.Attribute, observed time.Time) model.Log {
	l := r.bareLog(observed)
	l.Attributes = room.end(append(r.appendLog(room.begin(mostAttributes+len(peer))), peer...))
	return l
}

// bareLog returns a log without attributes.
func (r *Request) bareLog(observed time.Time) model.Log {
	l := model.Log{
		Event: "ebpf.request", Time: r.ended, Observed: observed,
		TraceID: r.record.Trace.TraceID, SpanID: r.record.Trace.SpanID, Sampled: r.record.Trace.Sampling == tracecontext.Sampled,
	}
	switch {
	case r.failed:
		l.Severity = model.Error
	case r.slow:
		l.Severity = model.Warn
	}
	return l
}

// mostAttributes is the number of attributes of a request's log, without those of its peer, for which there is room.
const mostAttributes = 24

// appendLog appends the attributes of a log.
func (r *Request) appendLog(list []model.Attribute) []model.Attribute {
	list = append(r.record.Semantics.LogAttributes(list, &r.record), model.Text("ebpf.role", r.record.Role.String()))
	if r.timed {
		list = append(list, model.Float("ebpf.request.duration", r.took.Seconds()))
	}
	return list
}

// IsOf reports whether the process had this role; [l7.RoleUnknown] is any.
func (r *Request) IsOf(role l7.Role) bool { return role == l7.RoleUnknown || r.record.Role == role }
