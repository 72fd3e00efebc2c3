// SPDX-License-Identifier: Apache-2.0

package toy

import (
	"bytes"
	"strconv"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// parser is one connection.
type parser struct {
	sink     *l7.Sink
	role     l7.Role
	lines    [2]l7.Stream // by direction
	prepared map[string]string
	pending  l7.Queue[request]
	end      *l7.End

	exchange  l7.Exchange
	operation operation
}

// request waits for its response.
type request struct {
	side   l7.Side
	method string
	topics []byte
	value  []byte
}

// Feed implements [l7.Parser].
func (p *parser) Feed(piece *l7.Piece) bool {
	s := &p.lines[piece.Direction]
	if piece.Lost != 0 {
		p.lose(s)
	}
	s.Begin(piece)
	for s.Left() > 0 {
		begin, position := s.Offset()-s.Carried(), s.Position()
		line, got := s.Line()
		if got != l7.Whole {
			if got == l7.Hole {
				p.lose(s)
			}
			break
		}
		side := l7.Side{
			Known: true, Ended: true, First: piece.First(), Last: piece.Ended, Position: position, Body: l7.Unknown, Whole: s.Offset() - begin,
		}
		if piece.Direction == p.role.RequestDirection() {
			p.ask(line, side)
		} else {
			p.answer(line, side)
		}
	}
	return false
}

// lose gives up all that waits: it is not known which response is lost.
func (p *parser) lose(s *l7.Stream) {
	p.sink.Stats.Losses++
	s.Forget()
	p.flush(l7.Lost)
}

func (p *parser) ask(line []byte, side l7.Side) {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	topics, value, _ := bytes.Cut(rest, []byte(" "))
	known := ""
	switch string(method) {
	case "PREPARE":
		p.prepared[string(topics)] = string(value)
		return
	case "RUN":
		known = "RUN"
		topics = []byte(p.prepared[string(topics)])
		if len(topics) == 0 {
			topics = []byte(l7.UnknownText)
		}
	case "PUT":
		known = "PUT"
	default:
		p.sink.Stats.Invalid++
		return
	}
	q := p.pending.Push()
	if q == nil {
		p.sink.Stats.Unkept++
		return
	}
	q.side, q.method, q.topics, q.value = side, known, append(q.topics[:0], topics...), append(q.value[:0], value...)
}

func (p *parser) answer(line []byte, side l7.Side) {
	status, value, _ := bytes.Cut(line, []byte(" "))
	q := p.pending.Front()
	if q == nil {
		p.sink.Stats.Unpaired++
		return
	}
	p.operation = operation{method: q.method, topics: q.topics, value: q.value, rows: l7.Unknown}
	p.exchange.ErrorType = ""
	if string(status) == "OK" {
		p.operation.rows, _ = strconv.ParseInt(string(value), 10, 64)
	} else {
		p.exchange.ErrorType = string(value)
	}
	p.exchange.Role, p.exchange.Request, p.exchange.Response, p.exchange.Outcome, p.exchange.Ended = p.role, q.side, side, l7.Complete, 0
	p.sink.Report(&p.exchange)
	p.pending.Pop()
}

func (p *parser) flush(outcome l7.Outcome) {
	for q := p.pending.Front(); q != nil; q = p.pending.Front() {
		p.operation = operation{method: q.method, topics: q.topics, value: q.value, rows: l7.Unknown}
		p.exchange.Role, p.exchange.Request, p.exchange.Response, p.exchange.Outcome = p.role, q.side, l7.Side{}, outcome
		p.exchange.ErrorType, p.exchange.Ended = "", 0
		if outcome == l7.Unanswered {
			p.exchange.ErrorType, p.exchange.Ended = l7.ErrorOfUnanswered(p.role, p.end.CauseOf()), p.end.After(q.side.First)
		}
		p.sink.Report(&p.exchange)
		p.pending.Pop()
	}
	p.pending.Clear()
}

// Expire implements [l7.Parser].
func (p *parser) Expire(int64) {}

// Idle implements [l7.Parser].
func (p *parser) Idle() bool {
	return p.pending.Len() == 0 && len(p.prepared) == 0 && !p.lines[0].Carrying() && !p.lines[1].Carrying()
}

// Recalls implements [l7.Parser]: a topic is prepared once.
func (p *parser) Recalls() bool { return len(p.prepared) > 0 }

// Close implements [l7.Parser].
func (p *parser) Close(end *l7.End) {
	p.end = end
	p.flush(l7.Unanswered)
}

// Held implements [l7.Parser].
func (p *parser) Held() int {
	n := int(unsafe.Sizeof(*p)) + p.pending.Held() + p.lines[0].Held() + p.lines[1].Held()
	p.pending.Places(func(q *request) { n += cap(q.topics) + cap(q.value) })
	for id, topic := range p.prepared {
		n += len(id) + len(topic) + 32
	}
	return n
}
