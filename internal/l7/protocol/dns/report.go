// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"strconv"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// codes are the names of response codes: https://www.iana.org/assignments/dns-parameters, DNS RCODEs.
var codes = [...]string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE", "DSOTYPENI",
	12: "RCODE12", 13: "RCODE13", 14: "RCODE14", 15: "RCODE15", 16: "BADVERS", 17: "BADKEY", 18: "BADTIME", 19: "BADMODE", 20: "BADNAME",
	21: "BADALG", 22: "BADTRUNC", 23: "BADCOOKIE",
}

// codeName is a response code as error.type has it.
func codeName(code int) string {
	if code < len(codes) {
		return codes[code]
	}
	return "RCODE" + strconv.Itoa(code)
}

// report hands over an exchange, one side of which may be unknown.
func (p *parser) report(q, answer *message, outcome l7.Outcome) {
	p.exchange = l7.Exchange{Protocol: Name, Outcome: outcome, Operation: &p.dns}
	p.dns = Exchange{ResponseCode: -1}
	asked := q
	if q == nil {
		asked = answer
	} else {
		p.exchange.Request = q.side
	}
	p.exchange.Role = asked.role
	p.dns.ID, p.dns.Opcode, p.dns.QuestionCount, p.dns.UDPSize = asked.id, asked.opcode, asked.header.questions, asked.udpSize
	p.dns.Questions = p.describe(asked)
	if answer != nil {
		p.exchange.Response = answer.side
		p.describeAnswer(answer)
	} else {
		p.exchange.ErrorType = l7.ErrorOfUnanswered(asked.role, p.end.CauseOf())
		p.exchange.Ended = p.end.After(q.side.First)
	}
	p.sink.Report(&p.exchange)
}

func (p *parser) describeAnswer(m *message) {
	const authoritative, truncated = 1 << 10, 1 << 9
	p.dns.ResponseCode, p.dns.Answers = m.code, m.header.answers
	p.dns.Authoritative, p.dns.Truncated = m.flags&authoritative != 0, m.flags&truncated != 0
	if m.code != 0 {
		p.exchange.ErrorType = codeName(m.code)
	}
}

// describe makes the questions that are reported.
func (p *parser) describe(m *message) []Question {
	p.names, p.questions = p.names[:0], p.questions[:0]
	for _, q := range m.questions {
		p.names = appendName(p.names, m.names[q.start:q.end])
	}
	rest := p.names // does not move any more
	for _, q := range m.questions {
		size := nameSize(m.names[q.start:q.end])
		p.questions = append(p.questions, Question{Name: rest[:size:size], Type: q.kind, Class: q.class})
		rest = rest[size:]
	}
	return p.questions
}

// appendName appends a name as zone files have it: RFC 1035, section 5.1.
func appendName(dst, name []byte) []byte {
	for _, c := range name {
		switch escapeSize(c) {
		case len(`\`):
			dst = append(dst, c)
		case len(`\\`):
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		}
	}
	return dst
}

func nameSize(name []byte) (n int) {
	for _, c := range name {
		n += escapeSize(c)
	}
	return n
}

// escapeSize is the number of bytes that a name's byte takes.
func escapeSize(c byte) int {
	switch {
	case c <= ' ' || c >= 0x7f:
		return len(`\000`)
	case c == '\\' || c == '"':
		return len(`\\`)
	}
	return 1
}
