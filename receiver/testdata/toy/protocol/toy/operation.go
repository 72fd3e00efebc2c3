// SPDX-License-Identifier: Apache-2.0

package toy

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// operation is what an exchange asks for. It implements [l7.Monitored].
type operation struct {
	method        string
	topics, value []byte
	rows          int64
}

// operations are the operations of both sides, messages what is sent to each topic.
var (
	operations = &l7.Semantics{
		Protocol:     Name,
		Metrics:      [l7.Roles]*l7.Metrics{l7.RoleClient: metrics("client"), l7.RoleServer: metrics("server")},
		Dictionaries: []*l7.Dictionary{topics},
		SeriesAttributes: func(list []model.Attribute, k *l7.Key) []model.Attribute {
			list = append(list, model.Text("toy.method", k.Texts[0]), model.Text("toy.topics", k.Target))
			return k.AppendServer(l7.AppendText(list, "error.type", k.ErrorType))
		},
		LogAttributes: recordAttributes,
		Spans: &l7.Spans{
			Name:       func(r *l7.Record) string { return r.Texts[recordMethod] + " " + r.Target },
			Attributes: recordAttributes,
			Same:       func(client, server *l7.Record) bool { return client.Texts == server.Texts },
		},
	}
	messages = &l7.Semantics{
		Protocol: Name,
		Metrics: [l7.Roles]*l7.Metrics{
			l7.RoleClient: {Values: [l7.MostValues]*model.Descriptor{{Name: "toy.client.sent.messages", Unit: "{message}", Instrument: model.Sum}}},
		},
		Dictionaries: []*l7.Dictionary{topics},
		SeriesAttributes: func(list []model.Attribute, k *l7.Key) []model.Attribute {
			return append(list, model.Text("toy.topic", k.Target))
		},
	}
	topics = &l7.Dictionary{Reason: "toy_topics_full", Most: 4, Of: func(k *l7.Key) string { return k.Target }}
)

func metrics(side string) *l7.Metrics {
	m := l7.NewMetrics("toy."+side+".operation.duration", "toy."+side+".operations.untimed", "{operation}", "toy operations")
	m.Values[0] = &model.Descriptor{Name: "toy." + side + ".rows", Unit: "{row}", Instrument: model.Distribution, Bounds: []float64{1, 10}}
	return m
}

// Semantics implements [l7.Operation].
func (o *operation) Semantics() *l7.Semantics { return operations }

// Count implements [l7.Operation]: a PUT of a client counts in the series of each of its topics, too.
func (o *operation) Count(i int, e *l7.Exchange, c *l7.Count) (more bool) {
	if i == 0 {
		c.Key.Texts[0], c.Values[0] = o.method, o.rows
		if e.Role == l7.RoleClient {
			c.SetServer(nil)
		}
	}
	topic := o.topics
	if i > 0 {
		c.Key.Semantics, c.Values[0] = messages, 1
		topic = bytes.Split(o.topics, []byte(","))[i-1]
	}
	known, ok := c.Text(topics, topic)
	if !ok {
		c.Overflow()
	} else {
		c.Key.Target = known
	}
	return o.method == "PUT" && i <= bytes.Count(o.topics, []byte(","))
}

// Failed implements [l7.Operation].
func (o *operation) Failed(e *l7.Exchange) bool { return e.ErrorType != "" }

// StatusClass implements [l7.Operation].
func (o *operation) StatusClass() int { return 0 }

// Endpoint implements [l7.Monitored].
func (o *operation) Endpoint() (path []byte, status int) { return o.topics, 0 }

// Texts of a record.
const (
	recordMethod = iota
	recordValue
)

// Record implements [l7.Operation].
func (o *operation) Record(_ *l7.Exchange, redact *l7.Redaction, w *l7.RecordWriter) {
	w.Texts[recordMethod] = o.method
	value := o.value
	if redact.Query {
		value = []byte("?")
	}
	w.Copy(recordValue, value)
}

func recordAttributes(list []model.Attribute, r *l7.Record) []model.Attribute {
	list = append(list, model.Text("toy.method", r.Texts[recordMethod]), model.Text("toy.topics", r.Target), model.Text("toy.value", r.Texts[recordValue]))
	return r.AppendServer(l7.AppendText(list, "error.type", r.ErrorType), "")
}
