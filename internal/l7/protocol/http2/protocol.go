// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// Name is the conventions' network.protocol.name; the version is in each exchange.
const Name = httpexchange.Name

// Descriptor is the protocol.
var Descriptor = &l7.Descriptor{
	Name: "http2", Number: 3, Operations: []*l7.Semantics{httpexchange.Semantics, grpccall.Semantics}, TLS: true, Monitored: true,
	New: func(o l7.Options) l7.Protocol {
		if o.Records {
			return New(httpexchange.Fields(), nil)
		}
		return New(nil, nil)
	},
}

const version = "2"

// Protocol is HTTP/2 with the fields whose values are wanted.
type Protocol struct{ wanted *wanted }

var _ l7.Protocol = (*Protocol)(nil)

// New makes the protocol. The values of the named fields of requests and of responses are put into each exchange, in this order; upper
// and lower case are the same.
func New(requestFields, responseFields []string) *Protocol {
	return &Protocol{newWanted(requestFields, responseFields)}
}

// Name is the conventions' network.protocol.name.
func (*Protocol) Name() string { return Name }

// Classify reports whether the preface or frames begin with the first bytes of a piece.
func (pr *Protocol) Classify(first []byte, all bool, transport l7.Transport) l7.Guess {
	if transport != l7.TCP {
		return l7.No
	}
	return pr.wanted.classify(first, all)
}

// Open makes a parser for one connection.
func (pr *Protocol) Open(role l7.Role, _ l7.Transport, sink *l7.Sink) l7.Parser {
	p := &parser{sink: sink, role: role, wanted: pr.wanted, missed: true, streams: streams{limit: sink.Limits.Streams, spare: sink.Limits.Pipelined}}
	for d := range p.readers {
		r := &p.readers[d]
		r.direction, r.stream, r.longest = l7.Direction(d), l7.NewStream(sink.Limits.Line), usualFrame
		limits := hpack.Limits{Table: sink.Limits.Table, Text: sink.Limits.Line}
		r.decoder = hpack.NewDecoder(pr.wanted.names, limits, func(f *hpack.Field) { p.addField(r, f) })
		if sink.Contents != nil {
			r.decoder.ReportAll()
		}
	}
	return p
}
