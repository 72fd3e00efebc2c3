// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// Name is the conventions' network.protocol.name.
const Name = httpexchange.Name

// Descriptor is the protocol.
var Descriptor = &l7.Descriptor{
	Name: "http", Number: 1, Operations: []*l7.Semantics{httpexchange.Semantics}, TLS: true, Monitored: true,
	New: func(o l7.Options) l7.Protocol {
		if o.Records {
			return New(httpexchange.Fields(), nil)
		}
		return New(nil, nil)
	},
}

// Protocol is HTTP/1.0 and 1.1 with the fields whose values are wanted.
type Protocol struct {
	requestFields, responseFields *fields
}

var _ l7.Protocol = (*Protocol)(nil)

// New makes the protocol. The values of the named fields of requests and of responses are put into each exchange, in this order; upper
// and lower case are the same.
func New(requestFields, responseFields []string) *Protocol {
	both := map[string]use{"content-length": useContentLength, "transfer-encoding": useTransferEncoding}
	request := map[string]use{"host": useHost, "expect": useExpect}
	response := map[string]use{"upgrade": useUpgrade}
	for name, use := range both {
		request[name], response[name] = use, use
	}
	return &Protocol{newFields(requestFields, request), newFields(responseFields, response)}
}

// Name is the conventions' network.protocol.name.
func (*Protocol) Name() string { return Name }

// Classify reports whether a request or a response begins with the first bytes of a piece.
func (*Protocol) Classify(first []byte, all bool, transport l7.Transport) l7.Guess {
	if transport != l7.TCP {
		return l7.No
	}
	return classify(first, all)
}

// Open makes a parser for one connection.
func (pr *Protocol) Open(role l7.Role, _ l7.Transport, sink *l7.Sink) l7.Parser {
	p := &parser{
		sink:      sink,
		role:      role,
		requests:  newReader(pr.requestFields, l7.Request, sink.Limits.Line),
		responses: newReader(pr.responseFields, l7.Response, sink.Limits.Line),
		pending:   l7.NewQueue[request](sink.Limits.Pipelined),
	}
	p.exchange.Protocol, p.exchange.Operation = Name, &p.http
	return p
}
