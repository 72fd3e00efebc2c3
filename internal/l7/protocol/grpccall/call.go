// SPDX-License-Identifier: Apache-2.0

// Package grpccall is what a call of gRPC says: the series that it counts in, and the attributes of metrics, events and spans. It is an exchange
// of HTTP as well, from which it has the rest.
package grpccall

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Call is a call of gRPC. It implements [l7.Operation].
type Call struct {
	*httpexchange.Exchange
	// Service and Name are those of the method, from the path. Both are [l7.UnknownText] if they are not known.
	Service, Name []byte
	// Status is the rpc.response.status_code, such as "OK" or "DEADLINE_EXCEEDED", or "" if it is not known.
	Status string
	// RequestMessages and ResponseMessages are the numbers of messages that were sent completely, or [l7.Unknown].
	RequestMessages, ResponseMessages int64
}

var _ l7.Monitored = (*Call)(nil)

// Semantics are those of calls.
var Semantics = &l7.Semantics{
	Protocol:     httpexchange.Name,
	Metrics:      [l7.Roles]*l7.Metrics{l7.RoleServer: newMetrics("server", "incoming"), l7.RoleClient: newMetrics("client", "outgoing")},
	Dictionaries: []*l7.Dictionary{methods},
	SeriesAttributes: func(list []model.Attribute, k *l7.Key) []model.Attribute {
		list = append(list, system, model.Text("rpc.method", k.Texts[methodText]))
		if k.TLS {
			list = append(list, model.Bool("ebpf.tls", true))
		}
		list = l7.AppendText(list, "rpc.response.status_code", k.Texts[codeText])
		list = l7.AppendText(list, "error.type", k.ErrorType)
		return k.AppendServer(list)
	},
	LogAttributes: func(list []model.Attribute, r *l7.Record) []model.Attribute { return appendTo(list, r, "http.route") },
	Spans: &l7.Spans{
		Name: spanName,
		Attributes: func(list []model.Attribute, r *l7.Record) []model.Attribute {
			return httpexchange.AppendURL(appendTo(list, r, httpexchange.TargetKey(r)), r)
		},
		Same: httpexchange.Same,
	},
	SampleAttributes: httpexchange.SampleAttributes,
}

func newMetrics(side, which string) *l7.Metrics {
	return l7.NewMetrics("rpc."+side+".call.duration", "ebpf.rpc."+side+".calls.untimed", "{call}", which+" remote procedure calls")
}

// system names gRPC.
var system = model.Text("rpc.system.name", "grpc")

// Semantics implements [l7.Operation].
func (c *Call) Semantics() *l7.Semantics { return Semantics }

// Texts of a series.
const (
	methodText = iota
	codeText
)

// methods bounds the methods that a process calls or serves. Calls beyond have the method [rfc9110.OtherMethod].
var methods = &l7.Dictionary{Reason: "call_methods_full", Most: 200, Of: func(k *l7.Key) string { return k.Texts[methodText] }}

// Count implements [l7.Operation].
func (c *Call) Count(_ int, _ *l7.Exchange, count *l7.Count) (more bool) {
	k := count.Key
	if k.Role == l7.RoleClient {
		c.SetServer(count)
	}
	k.TLS, k.Texts[codeText] = count.TLS, c.Status
	known, ok := count.Text(methods, c.method())
	if !ok {
		known = rfc9110.OtherMethod
	}
	k.Texts[methodText] = known
	return false
}

// method returns the full name of the method, or [l7.UnknownText].
func (c *Call) method() []byte {
	if string(c.Service) == l7.UnknownText {
		return c.Service
	}
	return bytes.TrimPrefix(c.Path, []byte("/"))
}

// Texts of a record.
const (
	recordCall = httpexchange.FirstOwnText + iota
	recordCode
)

// Record implements [l7.Operation].
func (c *Call) Record(e *l7.Exchange, redact *l7.Redaction, w *l7.RecordWriter) {
	c.Exchange.Record(e, redact, w)
	w.Copy(recordCall, c.method())
	w.Texts[recordCode] = c.Status
}

func appendTo(list []model.Attribute, r *l7.Record, target string) []model.Attribute {
	list = append(httpexchange.AppendRequest(list, r, target), system)
	list = l7.AppendText(list, "rpc.method", r.Texts[recordCall])
	list = l7.AppendText(list, "rpc.response.status_code", r.Texts[recordCode])
	return httpexchange.AppendConnection(list, r)
}

// spanName returns the full name of the method; the semantic conventions have one name for unknown methods.
func spanName(r *l7.Record) string {
	if name := r.Texts[recordCall]; name != l7.UnknownText {
		return name
	}
	return system.Value.Text
}
