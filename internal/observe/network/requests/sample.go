// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/hex"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// sampleEvent is the event name of logs of samples.
const sampleEvent = "ebpf.request.sample"

// Values of the attribute ebpf.sample: what a log of a sample contains.
const (
	sampledRequest  = "request"
	sampledResponse = "response"
	sampledCall     = "syscall"
)

// sample is the content of a request and its response.
type sample struct {
	id                string
	redact            *Redaction
	request, response *sampledMessage // nil if it was not kept
}

// sampledMessage is the request or the response.
type sampledMessage struct {
	began, ended time.Time
	whole        int64 // its bytes, or [l7.Unknown]
	head, body   []byte
	cut          bool // the body is longer
	rule         BodyRule
	calls        []sampledCallOf
	// moreCalls and moreFields are the numbers of calls and of lines of the head that are left out.
	moreCalls, moreFields int
}

// sampledCallOf is a call that transferred a message or a part of it.
type sampledCallOf struct {
	began, ended time.Time
	direction    l7.Direction
	length       int64
	wire         l7.Wire
}

// newSample copies the kept content of an exchange.
func newSample(e *l7.Exchange, rule *Rule, redact *Redaction, wall func(ns int64) time.Time) *sample {
	var id [8]byte
	chance(id[:])
	sizes := e.Sizes()
	return &sample{
		id: hex.EncodeToString(id[:]), redact: redact,
		request:  newSampledMessage(&e.Request, sizes[2], rule.Request, wall),
		response: newSampledMessage(&e.Response, sizes[3], rule.Response, wall),
	}
}

func newSampledMessage(side *l7.Side, whole int64, rule BodyRule, wall func(ns int64) time.Time) *sampledMessage {
	content := side.Content
	if content == nil {
		return nil
	}
	m := &sampledMessage{
		began: wall(side.First), ended: wall(side.Last), whole: whole, rule: rule,
		head: append([]byte(nil), content.Head...), body: append([]byte(nil), content.Body...), cut: content.Cut || !side.Ended,
		calls: make([]sampledCallOf, len(content.Calls)), moreCalls: content.MoreCalls, moreFields: content.MoreFields,
	}
	for i, call := range content.Calls {
		m.calls[i] = sampledCallOf{wall(call.Began), wall(call.Ended), call.Direction, call.Length, call.Wire}
	}
	return m
}

// bytes returns the memory of the sample.
func (s *sample) bytes() uint64 {
	if s == nil {
		return 0
	}
	bytes := uint64(unsafe.Sizeof(*s)) + uint64(len(s.id))
	for _, m := range []*sampledMessage{s.request, s.response} {
		if m != nil {
			bytes += uint64(unsafe.Sizeof(*m)) + uint64(len(m.head)+len(m.body)) + uint64(unsafe.Sizeof(sampledCallOf{}))*uint64(len(m.calls))
		}
	}
	return bytes
}

// Samples returns the logs of a request that was taken as a sample: one for each of its two messages, and one for each call that transferred
// them; peer are the attributes of the peer.
func (r *Request) Samples(peer []model.Attribute, observed time.Time) []model.Log {
	s := r.sample
	var list []model.Log
	add := func(what string, at time.Time, attributes []model.Attribute) {
		l := r.bareLog(observed)
		l.Event, l.Time, l.Attributes = sampleEvent, at, attributes
		l.Attributes = append(l.Attributes, model.Text("ebpf.sample", what), model.Text("ebpf.sample.id", s.id))
		l.Attributes = append(l.Attributes, peer...)
		list = append(list, l)
	}
	for _, side := range []struct {
		what string
		of   *sampledMessage
	}{{sampledRequest, s.request}, {sampledResponse, s.response}} {
		if side.of != nil {
			add(side.what, side.of.began, append(r.appendLog(nil), side.of.attributes(r.record.Semantics.SampleAttributes, side.what, s.redact)...))
		}
	}
	for _, m := range []*sampledMessage{s.request, s.response} {
		if m == nil {
			continue
		}
		for i := range m.calls {
			add(sampledCall, m.calls[i].began, append(m.calls[i].attributes(), model.Text("ebpf.role", r.record.Role.String())))
		}
	}
	return list
}

// sampleAttributes is [l7.Semantics.SampleAttributes].
type sampleAttributes func([]model.Attribute, *l7.Sample, *Redaction) []model.Attribute

// attributes returns those of the head and the body of a message, by of; what names the message.
func (m *sampledMessage) attributes(of sampleAttributes, what string, redact *Redaction) []model.Attribute {
	list := []model.Attribute{model.Float("ebpf.sample.duration", m.ended.Sub(m.began).Seconds())}
	if m.whole != l7.Unknown {
		list = append(list, model.Int("ebpf.sample.bytes", m.whole))
	}
	if m.moreCalls > 0 {
		list = append(list, model.Int("ebpf.sample.calls.omitted", int64(m.moreCalls)))
	}
	if m.moreFields > 0 {
		list = append(list, model.Int("ebpf.sample.fields.omitted", int64(m.moreFields)))
	}
	return of(list, &l7.Sample{
		Message: what, Head: m.head, MoreFields: m.moreFields, Body: m.body, Cut: m.cut, MaxBytes: m.rule.MaxBytes, Charset: m.rule.Charset,
	}, redact)
}

// attributes returns those of a call.
func (c *sampledCallOf) attributes() []model.Attribute {
	list := []model.Attribute{
		model.Text("ebpf.operation", operations[c.direction]), model.Int("ebpf.sample.bytes", c.length),
		model.Float("ebpf.sample.duration", c.ended.Sub(c.began).Seconds()),
	}
	if c.wire.Counted {
		list = append(list, model.Int("ebpf.sample.packets", c.wire.Packets))
	}
	if c.wire.RTT > 0 {
		list = append(list, model.Float("ebpf.sample.rtt", time.Duration(c.wire.RTT).Seconds()))
	}
	return list
}

// operations are the names of the directions of calls.
var operations = [...]string{l7.Read: "read", l7.Write: "write"}
