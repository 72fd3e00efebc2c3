// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const messageSize = int(unsafe.Sizeof(message{}))

// patience is how many ns resolvers wait for an answer before they ask again by default.
const patience = 5e9

// parser is one connection.
type parser struct {
	sink      *l7.Sink
	transport l7.Transport
	readers   [2]reader // by direction, over TCP

	waiting []*message // queries without a response, in their order
	free    []*message
	answer  message
	message dnsmessage.Parser

	end       *l7.End // of the connection, nil before
	exchange  l7.Exchange
	dns       Exchange
	questions []Question
	names     []byte
}

// reader is one direction over TCP.
type reader struct {
	stream    l7.Stream
	searching bool  // where a message begins is not known
	length    int   // of the message being read, 0 before its prefix is read
	left      int64 // bytes of the message that are passed over
	first     int64 // time of its first byte
	begin     int64 // and its offset
}

// Feed takes the next piece.
func (p *parser) Feed(piece *l7.Piece) bool {
	if p.transport == l7.UDP {
		data := piece.Data[:min(int64(len(piece.Data)), piece.Length)]
		p.take(piece, data, l7.Side{First: piece.First(), Whole: piece.Length}, piece.Length)
		return false
	}
	r := &p.readers[piece.Direction]
	if piece.Lost != 0 && !r.within(piece.Lost) {
		p.sink.Stats.Losses++
		r.search()
	}
	r.stream.Begin(piece)
	for p.step(r, piece) {
	}
	return false
}

// within goes on after n bytes that are missing, if they are all of the message being read.
func (r *reader) within(n int64) bool {
	if n <= 0 || r.left <= n {
		return false
	}
	r.left -= n
	r.stream.Pass(n)
	return true
}

func (r *reader) search() {
	r.stream.Forget()
	r.searching, r.length, r.left = true, 0, 0
}

// step reads the next part of a message over TCP. It returns false when the piece has no more of it.
func (p *parser) step(r *reader, piece *l7.Piece) bool {
	r.left -= r.stream.Skip(r.left)
	switch {
	case r.stream.Left() == 0:
		return false
	case r.length > 0:
		return p.readMessage(r, piece)
	case !r.stream.Carrying():
		if r.searching && !r.begins(piece) {
			r.stream.Drop()
			return false
		}
		r.first, r.begin = piece.First(), r.stream.Offset()
	}
	prefix, got := r.stream.Take(prefixSize)
	switch got {
	case l7.More:
		return false
	case l7.Hole:
		r.search()
		r.stream.Drop()
		return false
	case l7.Whole, l7.Short:
	}
	r.length = int(binary.BigEndian.Uint16(prefix))
	return true
}

// begins reports whether a message begins where the piece is.
func (r *reader) begins(piece *l7.Piece) bool {
	known := r.stream.Peek()
	return Protocol{}.Classify(known, int64(len(known)) == r.stream.Left(), l7.TCP) != l7.No
}

// readMessage reads what follows a prefix.
func (p *parser) readMessage(r *reader, piece *l7.Piece) bool {
	data, got := r.stream.Take(r.length)
	if got == l7.More {
		return false
	}
	whole := int64(prefixSize + r.length)
	r.left = whole - (r.stream.Offset() - r.begin)
	length := r.length
	r.length = 0
	// What comes after a message that is cut is in this piece mostly, so that its end is its own.
	if !p.take(piece, data, l7.Side{First: r.first, Whole: whole}, int64(length)) {
		r.search()
		r.stream.Drop()
		return false
	}
	r.searching = false
	return true
}

// take takes a message of which data is known. It returns false if it is none.
func (p *parser) take(piece *l7.Piece, data []byte, side l7.Side, length int64) bool {
	m := &p.answer
	m.side = side
	m.side.Known, m.side.Ended, m.side.Last, m.side.Body = true, true, piece.Ended, length
	whole := int64(len(data)) == length
	m.side.Cut = !whole
	if !m.read(&p.message, data, whole, p.sink.Limits.Values) {
		p.sink.Stats.Invalid++
		return false
	}
	if m.side.Cut {
		p.sink.Stats.Cut++
	}
	m.role = l7.RoleClient
	if m.response == (piece.Direction == l7.Write) {
		m.role = l7.RoleServer
	}
	if m.response {
		p.respond(m)
	} else {
		p.ask(m)
	}
	return true
}

// ask has a query wait for its response.
func (p *parser) ask(m *message) {
	for _, q := range p.waiting {
		if m.repeats(q) {
			return
		}
	}
	if len(p.waiting) == p.sink.Limits.Streams {
		p.giveUp(m.side.Last)
	}
	q := p.place()
	*q, *m = *m, *q // the places' memory goes with them
	p.waiting = append(p.waiting, q)
}

// giveUp has the query that waits longest wait no more. Where it has not waited for long it is not known whether it is answered: many that
// are asked at once are answered later.
func (p *parser) giveUp(now int64) {
	if q := p.waiting[0]; now-q.side.Last >= patience {
		p.report(q, nil, l7.Unanswered)
	} else {
		p.sink.Stats.Unkept++
	}
	p.remove(0)
}

// place is a message that is not in use.
func (p *parser) place() *message {
	last := len(p.free) - 1
	if last < 0 {
		return new(message)
	}
	q := p.free[last]
	p.free = p.free[:last]
	return q
}

// remove frees the i-th query's place.
func (p *parser) remove(i int) {
	p.free = append(p.free, p.waiting[i])
	p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
}

// respond reports a response with its query.
func (p *parser) respond(m *message) {
	for i, q := range p.waiting {
		if m.answers(q) && q.side.First <= m.side.First {
			p.report(q, m, l7.Complete)
			p.remove(i)
			return
		}
	}
	if len(m.questions) == 0 {
		return // of an unknown query: the next one of a transfer of a zone, or another protocol's that has DNS's messages
	}
	if m.role != l7.RoleServer { // those are not reported: a server that reads a query's length by itself shows none
		p.sink.Stats.Unpaired++
	}
	p.report(nil, m, l7.Complete)
}

// Expire reports queries that were not answered.
func (p *parser) Expire(before int64) {
	for len(p.waiting) > 0 && p.waiting[0].side.Last < before {
		p.report(p.waiting[0], nil, l7.Unanswered)
		p.remove(0)
	}
}

// Idle reports whether every query has its response, and no message is under way.
func (p *parser) Idle() bool {
	return len(p.waiting) == 0 && p.readers[l7.Read].idles() && p.readers[l7.Write].idles()
}

// Recalls is never so.
func (p *parser) Recalls() bool { return false }

// idles reports whether nothing of a message was read.
func (r *reader) idles() bool { return r.length == 0 && r.left == 0 && !r.stream.Carrying() }

// Close hands over what is left.
func (p *parser) Close(end *l7.End) {
	p.end = end
	for len(p.waiting) > 0 {
		p.report(p.waiting[0], nil, l7.Unanswered)
		p.remove(0)
	}
}

// Held is the number of bytes of memory held, the parser itself included.
func (p *parser) Held() int {
	n := int(unsafe.Sizeof(*p)) + (cap(p.waiting)+cap(p.free))*8 + p.answer.held() + cap(p.names) + cap(p.questions)*32
	for i := range p.readers {
		n += p.readers[i].stream.Held()
	}
	for _, list := range [][]*message{p.waiting, p.free} {
		for _, m := range list {
			n += m.held() + messageSize
		}
	}
	return n
}
