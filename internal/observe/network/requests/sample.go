// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/hex"
	"errors"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// sampleEvent is the name of logs of samples.
const sampleEvent = "ebpf.request.sample"

// Values of the attribute ebpf.sample: what a log of a sample tells.
const (
	sampledRequest  = "request"
	sampledResponse = "response"
	sampledCall     = "syscall"
)

// sample is the content of a request and its response.
type sample struct {
	id                string
	redact            *Redaction
	request, response *sampledMessage // nil where it was not kept
}

// sampledMessage is one of both.
type sampledMessage struct {
	began, ended time.Time
	whole        int64 // its bytes, or [l7.Unknown]
	head, body   []byte
	cut          bool // the body goes on
	rule         BodyRule
	calls        []sampledCallOf
	// moreCalls and moreFields are how many calls and lines of the head are left out.
	moreCalls, moreFields int
}

// sampledCallOf is a call that transferred a message or a part of it.
type sampledCallOf struct {
	began, ended time.Time
	direction    l7.Direction
	length       int64
	wire         l7.Wire
}

// newSample copies what was kept of an exchange.
func newSample(e *l7.Exchange, rule *Rule, redact *Redaction, wall func(ns int64) time.Time) *sample {
	var id [8]byte
	chance(id[:])
	sizes := sizes(e)
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

// bytes is the memory that it takes.
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

// Samples tells of a request that was taken as a sample: its two messages, and the calls
// that transferred them; peer are the attributes of the other side.
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
			add(side.what, side.of.began, append(r.appendLog(nil), side.of.attributes(side.what, s.redact)...))
		}
	}
	for _, m := range []*sampledMessage{s.request, s.response} {
		if m == nil {
			continue
		}
		for i := range m.calls {
			add(sampledCall, m.calls[i].began, append(m.calls[i].attributes(), model.Text("ebpf.role", r.role.String())))
		}
	}
	return list
}

// attributes tell the head and the body of a message, which is what.
func (m *sampledMessage) attributes(what string, redact *Redaction) []model.Attribute {
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
	fields := parseHead(m.head)
	for _, f := range fields {
		list = append(list, model.List("http."+what+".header."+f.name, redact.values(f.name, f.values)...))
	}
	if len(m.body) == 0 && !m.cut {
		return list
	}
	return append(list, m.bodyAttributes(fields, redact)...)
}

// encodingFields say how bodies are encoded, of gRPC each of its messages.
var encodingFields = map[bool]string{false: "content-encoding", true: "grpc-encoding"}

// bodyAttributes tell the body's text, or why there is none.
func (m *sampledMessage) bodyAttributes(fields []field, redact *Redaction) (list []model.Attribute) {
	kind := valueOf(fields, "content-type")
	isCall := grpc.Is([]byte(kind))
	encoding := valueOf(fields, encodingFields[isCall])
	if encoding != "" {
		list = append(list, model.Text("ebpf.body.encoding", encoding))
	}
	var text string
	var cut bool
	var err error
	if isCall {
		text, cut, err = m.callText(encoding, kind)
	} else {
		text, cut, err = m.text(encoding, kind, redact)
	}
	if cut {
		list = append(list, model.Bool("ebpf.body.cut", true))
	}
	switch {
	case errors.Is(err, errNoText):
		return append(list, model.Text("ebpf.body.error", bodyNoText))
	case err != nil:
		return append(list, model.Text("ebpf.body.error", err.Error()))
	}
	return append(list, model.Lines("ebpf.body.content", text))
}

// attributes tell of a call.
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

// operations are what calls of each direction are told as.
var operations = [...]string{l7.Read: "read", l7.Write: "write"}
