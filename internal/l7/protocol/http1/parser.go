// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// parser is one connection.
type parser struct {
	sink *l7.Sink

	requests, responses reader
	pending             l7.Queue[request] // requests without a response, the one being read included
	response            response
	reading             *request // the request being read, or nil
	spare               request  // its place where the queue has none
	kept                bool     // it has one
	role                l7.Role  // here, it takes no memory of its own

	left      bool  // another protocol follows
	pipelined bool  // requests were seen to be sent before the response to the one before
	lossy     bool  // bytes of it are missing: requests that come now are behind them
	hidden    bool  // others may follow, unseen, on the last request in its transfer
	owed      uint8 // requests that were handed over without their response, which may come yet: it counts for them
	sync      syncState
	last      int64 // time of the last byte of either direction
	// refused is the time of the last bytes that were no response where one was due, or 0 if there was one since.
	refused int64
	// missed is the time of the last bytes before which some of a request were missing, or 0.
	missed int64

	tag uint64 // of the skipped request that is read, else 0

	end      *l7.End // of the connection, nil before
	exchange l7.Exchange
	http     httpexchange.Exchange
}

// Feed takes the next piece.
func (p *parser) Feed(piece *l7.Piece) bool {
	r := &p.responses
	if piece.Direction == p.role.RequestDirection() {
		r = &p.requests
	}
	if piece.Lost != 0 {
		p.lose(r, piece)
	}
	r.stream.Begin(piece)
	p.beginPiece(r, piece)
	if piece.Ended != r.last { // else it goes on with the same call
		r.ended = false
		p.hidden = p.hidden && r.kind == l7.Response
	}
	if r.cur != nil {
		r.cur.content.AddCall(piece.Call(piece.Length), r.stream.Offset())
	}
	for p.step(r, piece) {
	}
	if r.cur != nil {
		r.cur.content.EndCall(r.stream.Offset())
	}
	r.last = piece.Ended
	p.last = max(p.last, piece.Ended)
	if p.left {
		piece.Data, piece.Length, piece.Lost, piece.Position = r.stream.Peek(), r.stream.Left(), 0, r.stream.Position()
	}
	return p.left
}

// Expire ends a response whose end cannot be seen and that has been quiet since before, and gives up waiting for its request.
func (p *parser) Expire(before int64) {
	if !p.response.active || p.responses.last >= before {
		return
	}
	if p.responses.state == stateTail {
		p.finish(&p.responses, p.responses.last)
		p.responses.unsure = true
	}
	if p.response.active && p.response.done && p.response.request == nil {
		p.reportUnpaired()
	}
}

// Idle reports whether every request that was seen has its response, and nothing was said since.
func (p *parser) Idle() bool {
	return p.pending.Len() == 0 && p.reading == nil && !p.response.active && p.requests.idles() && p.responses.idles()
}

// Recalls is never so.
func (p *parser) Recalls() bool { return false }

// Close hands over what is left.
func (p *parser) Close(end *l7.End) {
	p.end = end
	p.dropCandidate()
	if s := p.responses.state; s == stateClose || s == stateTail {
		p.finish(&p.responses, p.responses.last)
	}
	if p.response.active {
		p.abandonRequest(p.response.request)
		p.endResponse(l7.Aborted)
	}
	p.flush(func(q *request) (l7.Outcome, bool) {
		if q.done || p.requests.state == stateTail {
			return l7.Unanswered, true
		}
		return l7.Aborted, true
	})
	p.freeContents()
}

// freeContents gives back what was kept of the content of messages.
func (p *parser) freeContents() {
	p.response.free()
	p.pending.Places(func(q *request) { q.free() })
}

// Held is the number of bytes of memory held, the parser itself included.
func (p *parser) Held() int {
	n := int(unsafe.Sizeof(*p)) + p.requests.held() + p.responses.held() + p.response.held() + p.spare.held() + p.pending.Held() +
		(cap(p.http.RequestFields)+cap(p.http.ResponseFields))*24
	p.pending.Places(func(q *request) { n += q.held() })
	return n
}
