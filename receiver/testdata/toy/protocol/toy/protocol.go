// SPDX-License-Identifier: Apache-2.0

// Package toy is a protocol of lines. PREPARE ID TOPIC has no response and names a topic; RUN ID VALUE and PUT TOPIC,TOPIC VALUE are answered by
// OK ROWS or ERR CODE, in the order of the requests.
package toy

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// Name is the network.protocol.name.
const Name = "toy"

// Descriptor is the protocol.
var Descriptor = &l7.Descriptor{
	Name: Name, Number: 31, Operations: []*l7.Semantics{operations, messages}, TLS: true, Monitored: true,
	New: func(l7.Options) l7.Protocol { return toy{} },
}

// toy implements [l7.Protocol].
type toy struct{}

func (toy) Name() string { return Name }

func (toy) Classify(first []byte, _ bool, transport l7.Transport) l7.Guess {
	switch {
	case transport != l7.TCP:
		return l7.No
	case bytes.HasPrefix(first, []byte("PREPARE ")), bytes.HasPrefix(first, []byte("RUN ")), bytes.HasPrefix(first, []byte("PUT ")):
		return l7.Request
	case bytes.HasPrefix(first, []byte("OK ")), bytes.HasPrefix(first, []byte("ERR ")):
		return l7.Response
	}
	return l7.No
}

func (toy) Open(role l7.Role, _ l7.Transport, sink *l7.Sink) l7.Parser {
	p := &parser{sink: sink, role: role, prepared: map[string]string{}, pending: l7.NewQueue[request](sink.Limits.Pipelined)}
	p.exchange.Protocol, p.exchange.Operation = Name, &p.operation
	for d := range p.lines {
		p.lines[d] = l7.NewStream(sink.Limits.Line)
	}
	return p
}
