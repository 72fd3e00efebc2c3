// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"encoding/binary"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// Name is the conventions' network.protocol.name.
const Name = "dns"

const (
	headerSize       = 12
	prefixSize       = 2 // of a message over TCP: its length
	shortestQuestion = 5 // the root's name, type and class
	// mostQuestions is how many a message may have to be taken for DNS where nothing else is known: no resolver sends more than one, but for
	// multicast DNS.
	mostQuestions = 16
)

// Protocol is DNS.
type Protocol struct{}

var _ l7.Protocol = Protocol{}

// Name is the conventions' network.protocol.name.
func (Protocol) Name() string { return Name }

// Classify reports whether a query or a response begins with the first bytes of a piece.
func (Protocol) Classify(first []byte, all bool, transport l7.Transport) l7.Guess {
	if transport == l7.UDP {
		return classify(first, false)
	}
	if len(first) < prefixSize {
		return perhaps(all)
	}
	length := int(binary.BigEndian.Uint16(first))
	message := first[prefixSize:]
	if length < headerSize+shortestQuestion {
		return l7.No
	}
	return classify(message[:min(len(message), length)], all && len(message) < length)
}

// classify returns what a message is; more is set if it goes on after its bytes.
func classify(message []byte, more bool) l7.Guess {
	if len(message) < headerSize {
		return perhaps(more)
	}
	h := headerOf(message)
	if !h.plausible() {
		return l7.No
	}
	var p dnsmessage.Parser
	if _, err := p.Start(message); err != nil {
		return l7.No
	}
	q, err := p.Question()
	if err != nil {
		return perhaps(more)
	}
	if !plausibleClass(q.Class) || q.Type == 0 {
		return l7.No
	}
	if h.response {
		return l7.Response
	}
	return l7.Request
}

func perhaps(may bool) l7.Guess {
	if may {
		return l7.Perhaps
	}
	return l7.No
}

// header is the first twelve bytes of a message.
type header struct {
	id, flags          uint16
	response           bool
	opcode, code       uint8
	questions, answers int
	others             int // records of authority and additional sections
}

func headerOf(message []byte) header {
	at := func(i int) int { return int(binary.BigEndian.Uint16(message[2*i:])) }
	flags := uint16(at(1))
	return header{
		id: uint16(at(0)), flags: flags, response: flags>>15 == 1, opcode: uint8(flags >> 11 & 15), code: uint8(flags & 15),
		questions: at(2), answers: at(3), others: at(4) + at(5),
	}
}

// plausible reports whether the header may be one of DNS.
func (h header) plausible() bool {
	const reserved = 1 << 6
	const notify, update = 4, 5
	if h.flags&reserved != 0 || h.questions == 0 || h.questions > mostQuestions {
		return false
	}
	switch h.opcode {
	case 0:
		return h.response || h.code == 0 && h.answers <= mostQuestions
	case notify, update:
		return true
	}
	return false
}

// plausibleClass leaves out the bit by which multicast DNS asks for an answer to itself alone.
func plausibleClass(c dnsmessage.Class) bool {
	const unicast = 1 << 15
	const none = 254
	switch c &^ unicast {
	case dnsmessage.ClassINET, dnsmessage.ClassCHAOS, dnsmessage.ClassHESIOD, none, dnsmessage.ClassANY:
		return true
	}
	return false
}

// Open makes a parser for one connection, or for what a socket says to one peer over UDP.
func (Protocol) Open(_ l7.Role, transport l7.Transport, sink *l7.Sink) l7.Parser {
	p := &parser{sink: sink, transport: transport}
	for i := range p.readers {
		p.readers[i] = reader{stream: l7.NewStream(sink.Limits.Line), searching: true}
	}
	return p
}
