// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"math"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// parser is one connection.
type parser struct {
	sink   *l7.Sink
	role   l7.Role
	wanted *wanted

	readers [2]reader // by direction
	streams streams

	highest uint32 // of the streams that the client has begun
	// unseen is the first stream since the last loss whose request was seen: those below may have begun without.
	unseen uint32
	missed bool // requests may have been missed since the last that was seen
	early  bool // there may be streams with a response and no request yet

	exchange l7.Exchange
	http     httpexchange.Exchange
	call     grpccall.Call
	line     []byte // of a head that is kept
}

// Feed takes the next piece. HTTP/2 is never left.
func (p *parser) Feed(piece *l7.Piece) bool {
	r := &p.readers[piece.Direction]
	if piece.Lost != 0 {
		p.lose(r, piece)
	}
	r.stream.Begin(piece)
	p.beginCall(r, piece)
	if r.state == stateSearch {
		p.search(r, piece)
	}
	for p.step(r, piece) {
	}
	r.last, r.call = piece.Ended, l7.Call{}
	return false
}

// begin begins the connection: nothing was said before the preface.
func (p *parser) begin(client *reader) {
	p.setRole(client.direction)
	p.missed = false
	client.state, client.trust = stateHead, trusted
	client.decoder.Begin()
	if server := &p.readers[client.direction.Other()]; server.stream.Offset() == 0 {
		server.state, server.trust = stateHead, trusted
		server.decoder.Begin()
	}
}

// setRole takes who sends in the direction for the client.
func (p *parser) setRole(requests l7.Direction) {
	p.role = l7.RoleServer
	if requests == l7.Write {
		p.role = l7.RoleClient
	}
}

// isRequest reports whether requests go in the reader's direction.
func (p *parser) isRequest(r *reader) bool {
	return p.role != l7.RoleUnknown && r.direction == p.role.RequestDirection()
}

// isResponse reports whether responses do.
func (p *parser) isResponse(r *reader) bool {
	return p.role != l7.RoleUnknown && r.direction != p.role.RequestDirection()
}

// lose goes on after bytes that are missing before the piece.
func (p *parser) lose(r *reader, piece *l7.Piece) {
	within := r.state != stateSearch && r.state != stateHead && r.state != statePreface
	if left := r.left(); within && piece.Lost > 0 && (piece.Lost < left || piece.Lost == left && piece.LostAt != 0) {
		p.loseWithin(r, piece.Lost, piece.LostAt)
		return
	}
	p.sink.Stats.Losses++
	at := piece.LostAt
	if at == 0 {
		at = math.MaxInt64 // anything may have been lost
	}
	r.stream.Pass(max(0, piece.Lost))
	p.miss(r, at)
}

// loseWithin goes on after n bytes of a frame are missing, the last of which were transferred at the given time: where the next frame
// begins is known still.
func (p *parser) loseWithin(r *reader, n, at int64) {
	r.stream.Forget()
	content := int64(0)
	switch r.state {
	case stateData:
		content = min(n, r.content())
		r.stream.Pass(content)
		p.countData(r, nil, content, max(at, r.last))
	case stateRest:
	default:
		p.passOver(r, max(at, r.last))
	}
	r.stream.Pass(n - content)
	if r.frame.kind == kindData {
		p.countPadding(r, n-content)
	}
	if r.left() == 0 {
		r.state = stateHead
		p.endFrame(r, at)
	}
}

// miss goes on after missing bytes of a direction, the last of which were transferred at the given time.
func (p *parser) miss(r *reader, at int64) {
	r.stream.Forget()
	r.state, r.trust, r.trial.stream = stateSearch, trusted, 0
	r.block.open = false
	r.block.free()
	r.decoder.Forget()
	if !p.isResponse(r) {
		p.missed, p.highest = true, 0 // which may have been read where no frame was
	}
	p.doubt(r, at)
}

// doubt marks what may have gone on or ended in missing bytes, the last of which were transferred at the given time.
func (p *parser) doubt(r *reader, at int64) {
	for i := len(p.streams.active) - 1; i >= 0; i-- {
		s := p.streams.active[i]
		h := &s.halves[r.direction]
		if h.ended || p.isResponse(r) && p.requestOf(s).side.First > at {
			continue
		}
		h.doubtful = true
		if h.begun {
			h.miss()
		}
		if h.open { // the head that counts may be missing
			h.side.First = 0
		}
		p.settle(s)
	}
}

// Expire reports streams that may have ended without being seen to, and those whose request will not be seen any more.
func (p *parser) Expire(before int64) {
	for i := len(p.streams.active) - 1; i >= 0; i-- {
		s := p.streams.active[i]
		if s.last >= before || p.role == l7.RoleUnknown {
			continue
		}
		req, resp := p.requestOf(s), p.responseOf(s)
		if resp.ended || resp.doubtful || req.doubtful && !resp.begun { // a reset may be what is missing
			p.endDoubtful(s)
		}
	}
}

// Idle is never so: what follows refers to fields that were sent before.
func (p *parser) Idle() bool { return false }

// Recalls is always so, for the same reason.
func (p *parser) Recalls() bool { return true }

// Close hands over what is left.
func (p *parser) Close(end *l7.End) {
	for len(p.streams.active) > 0 {
		s := p.streams.active[0]
		if p.role == l7.RoleUnknown {
			p.sink.Stats.Unpaired++
			p.streams.remove(s)
			continue
		}
		p.end(s, p.outcomeOf(s), ending{cause: end.Cause, at: end.After(p.requestOf(s).side.First)})
	}
	for d := range p.readers {
		p.readers[d].block.free()
	}
}

// outcomeOf is how an exchange ended, as the connection did.
func (p *parser) outcomeOf(s *stream) l7.Outcome {
	req, resp := p.requestOf(s), p.responseOf(s)
	switch {
	case resp.ended:
		return l7.Complete
	case resp.doubtful:
		return l7.Lost
	case resp.begun && !resp.informational(), !req.ended && !req.doubtful:
		return l7.Aborted
	}
	return l7.Unanswered
}

// Held is the number of bytes of memory held, the parser itself included.
func (p *parser) Held() int {
	n := int(unsafe.Sizeof(*p)) + cap(p.line) + p.streams.held() + (cap(p.http.RequestFields)+cap(p.http.ResponseFields))*24
	for d := range p.readers {
		r := &p.readers[d]
		n += r.stream.Held() + r.decoder.Held() + r.block.fields.held() + r.block.content.Held() + r.opening.Held()
	}
	return n
}
