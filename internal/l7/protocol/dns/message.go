// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"bytes"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// message is what is reported of a query or a response. Its memory is used again.
type message struct {
	header
	side      l7.Side
	role      l7.Role
	questions []question
	names     []byte // in lower case
	udpSize   int
	code      int // with the upper bits of EDNS
}

// question is one, its name in the message's names.
type question struct {
	start, end  int
	kind, class uint16
}

// read takes a message apart, as far as it is known: what is missing is marked. It is none if ok is false.
func (m *message) read(p *dnsmessage.Parser, data []byte, whole bool, limit int) (ok bool) {
	if len(data) < headerSize {
		return false
	}
	m.header = headerOf(data)
	m.questions, m.names, m.udpSize = m.questions[:0], m.names[:0], 0
	m.code = int(m.header.code)
	if _, err := p.Start(data); err != nil {
		return false
	}
	if !m.readQuestions(p, limit) || !m.readOptions(p) {
		m.side.Cut = true
		return !whole
	}
	return true
}

func (m *message) readQuestions(p *dnsmessage.Parser, limit int) bool {
	for range m.header.questions {
		q, err := p.Question()
		if err != nil {
			return false
		}
		name := q.Name.Data[:q.Name.Length]
		if len(m.names)+len(name) > limit {
			m.side.Cut = true
			continue
		}
		start := len(m.names)
		m.names = appendLower(m.names, name)
		m.questions = append(m.questions, question{start, len(m.names), uint16(q.Type), uint16(q.Class)})
	}
	return true
}

// appendLower appends a name as it is compared and reported: names that differ in case are equal, for ASCII's letters alone (RFC 4343, 3), and
// resolvers mix it at random so that answers are harder to forge.
func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// readOptions looks for the record of EDNS, which is the last but for signatures.
func (m *message) readOptions(p *dnsmessage.Parser) bool {
	if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			return true
		}
		if err != nil {
			return false
		}
		if h.Type == dnsmessage.TypeOPT {
			m.udpSize = int(h.Class)
			m.code = int(h.ExtendedRCode(dnsmessage.RCode(m.header.code)))
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

// answers reports whether a response may be the query's.
func (m *message) answers(q *message) bool {
	if m.id != q.id || m.role != q.role || m.opcode != q.opcode {
		return false
	}
	return len(m.questions) == 0 || len(q.questions) == 0 || sameQuestion(m, q)
}

// repeats reports whether a query is another one's repetition.
func (m *message) repeats(q *message) bool {
	return m.id == q.id && m.role == q.role && len(m.questions) > 0 && len(q.questions) > 0 && sameQuestion(m, q)
}

func sameQuestion(a, b *message) bool {
	x, y := a.questions[0], b.questions[0]
	return x.kind == y.kind && x.class == y.class && bytes.Equal(a.names[x.start:x.end], b.names[y.start:y.end])
}

// held is the number of bytes of memory held.
func (m *message) held() int { return cap(m.names) + cap(m.questions)*24 }
