// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// requestOf and responseOf are a stream's halves, once the roles are known.
func (p *parser) requestOf(s *stream) *half  { return &s.halves[p.role.RequestDirection()] }
func (p *parser) responseOf(s *stream) *half { return &s.halves[p.role.RequestDirection().Other()] }

// halfOf is what was sent on a stream in the reader's direction, or nil where the stream is not known.
func (p *parser) halfOf(r *reader, id uint32) *half {
	if s := p.streams.find(id); s != nil {
		return &s.halves[r.direction]
	}
	return nil
}

// beginBlock begins a header block.
func (p *parser) beginBlock(r *reader) {
	f := &r.frame
	limit := p.sink.Limits.Values
	if len(p.streams.active) >= p.sink.Limits.Pipelined {
		limit /= 4 // many messages are small, or they are not kept whole
	}
	r.block.free()
	r.block = block{
		open: true, stream: f.stream, pushes: f.kind == kindPushPromise, ends: f.kind == kindHeaders && f.has(flagEndStream),
		first: r.first, place: r.place, begin: r.stream.Offset() - headSize, limit: limit, fields: r.block.fields,
	}
	r.block.fields.reset(p.wanted.tags)
}

// endBlock goes on after a whole header block.
func (p *parser) endBlock(r *reader, at int64) {
	p.takeBlock(r, at)
	r.block.free() // where no message has taken what was kept
}

func (p *parser) takeBlock(r *reader, at int64) {
	b := &r.block
	if !b.broken && r.decoder.End() != nil {
		p.sink.Stats.Invalid++
		r.breakBlock()
	}
	b.open = false
	if b.broken {
		p.sink.Stats.Cut++
	}
	if r.trust == waiting {
		if b.broken || b.fields.shape != shapeRequest && b.fields.shape != shapeResponse {
			r.decoder.Forget()
			return
		}
		r.trust = trusted
	}
	if b.fields.unseen {
		p.sink.Stats.Unseen++
	}
	p.learnRole(r)
	p.decide(r)
	if b.pushes {
		p.promise(r, at)
		return
	}
	p.headers(r, at)
}

// learnRole finds out who is the client, by fields that only requests or only responses have.
func (p *parser) learnRole(r *reader) {
	if p.role != l7.RoleUnknown {
		return
	}
	switch shape := r.block.fields.shape; {
	case shape == shapeRequest && !r.block.pushes:
		p.setRole(r.direction)
	case shape == shapeRequest || shape == shapeResponse:
		p.setRole(r.direction.Other())
	}
}

// headers takes a header block: the head of a message, or its trailers.
func (p *parser) headers(r *reader, at int64) {
	b := &r.block
	s := p.streamOf(r)
	if s == nil {
		return
	}
	h := &s.halves[r.direction]
	s.last = at
	switch {
	case h.ended:
		return // nothing follows the end
	case b.fields.shape == shapeTrailers, h.begun && !h.open:
		p.trailers(r, h)
	case h.open && b.fields.shape == shapeUnknown && h.status == 0:
		// Either the trailers of the message, or its head after one that was informational: it is unknown when it began.
		p.head(r, h)
		h.side.First, h.side.Cut = 0, true
	default:
		p.head(r, h)
	}
	h.doubtful, h.side.Last = false, at
	if b.ends {
		p.finish(s, h, at)
	}
}

// streamOf is the stream of a header block, made where a message begins with it; nil where it belongs to none that is followed.
func (p *parser) streamOf(r *reader) *stream {
	b := &r.block
	s := p.streams.find(b.stream)
	switch {
	case p.isRequest(r):
		s = p.requestStream(r, s)
	case s != nil, b.fields.shape == shapeTrailers:
	case p.isResponse(r) && b.stream <= p.highest && b.stream >= p.unseen:
		// Its request was seen and reported: it was reset, or not kept.
	case b.stream%2 == 0:
		p.sink.Stats.Unpaired++ // its promise was missed
	default:
		s = p.add(b.stream)
		p.early = true
	}
	return s
}

// requestStream is streamOf for requests; s is the stream if it has a place.
func (p *parser) requestStream(r *reader, s *stream) *stream {
	id := r.block.stream
	isHead := r.block.fields.shape != shapeTrailers
	if id <= p.highest || id%2 == 0 || !isHead {
		return s
	}
	p.highest = id
	if p.missed {
		p.unseen, p.missed = id, false
	}
	if s == nil {
		s = p.add(id)
	}
	p.disown(id)
	return s
}

// add makes a place for a stream, if need be that of one that may have ended without being seen to.
func (p *parser) add(id uint32) *stream {
	if p.streams.full() && p.role != l7.RoleUnknown {
		i := slices.IndexFunc(p.streams.active, func(s *stream) bool { return s.halves[0].doubtful || s.halves[1].doubtful })
		if i >= 0 {
			p.endDoubtful(p.streams.active[i])
		}
	}
	s := p.streams.add(id)
	if s == nil {
		p.sink.Stats.Unkept++
	}
	return s
}

// disown reports responses whose request will not be seen any more, as a later one was.
func (p *parser) disown(id uint32) {
	if !p.early {
		return
	}
	p.early = false
	for i := len(p.streams.active) - 1; i >= 0; i-- {
		s := p.streams.active[i]
		switch {
		case p.requestOf(s).begun, s.id == id:
		case s.id < id:
			s.ownerless = true
			p.settle(s)
		default:
			p.early = true
		}
	}
}

// head takes the head of a message.
func (p *parser) head(r *reader, h *half) {
	b := &r.block
	h.fields, b.fields = b.fields, h.fields
	f := &h.fields
	unsure := h.doubtful && f.shape == shapeUnknown // it may be the trailers of a message that was missed
	h.begun, h.missing = true, h.missing && h.begun && !h.open || unsure
	h.side = l7.Side{Known: true, First: b.first, Last: b.first, Position: b.place, Cut: f.cut}
	if unsure {
		h.side.First = 0
	}
	h.body, h.whole = 0, r.stream.Offset()-b.begin
	h.messages, h.grpcStatus, h.grpcHidden = grpc.Messages{}, "", false
	h.isGRPC = grpc.Is(f.get(tagContentType))
	h.status = rfc9110.Status(f.get(tagStatus))
	h.open = !p.isRequest(r) && !b.ends && h.status/100 <= 1
	h.takeStatus(f)
	h.takeContent(r)
}

// trailers takes the fields after a body.
func (p *parser) trailers(r *reader, h *half) {
	b := &r.block
	h.beginMissed()
	h.closeHead()
	h.count(r, r.stream.Offset()-b.begin)
	h.side.Cut = h.side.Cut || b.broken
	h.takeStatus(&b.fields)
}

// takeStatus takes what gRPC says of the end of a call.
func (h *half) takeStatus(f *fields) {
	if said := f.get(tagGRPCStatus); said != nil {
		h.grpcStatus = grpc.Status(said)
		return
	}
	h.grpcHidden = h.grpcHidden || f.cut
}

// beginMissed begins a message whose beginning was not seen.
func (h *half) beginMissed() {
	if h.begun {
		return
	}
	h.begun = true
	h.side = l7.Side{Known: true, Cut: true}
	h.fields.miss()
	h.miss()
}

// closeHead says that no other head follows. After one that was informational, the one that counts was missed.
func (h *half) closeHead() {
	if h.informational() {
		h.status, h.side.First, h.side.Cut = 0, 0, true
		h.fields.reset(len(h.fields.values))
		h.fields.miss()
		h.miss()
	}
	h.open = false
}

// promise takes a request that the server makes in place of the client.
func (p *parser) promise(r *reader, at int64) {
	b := &r.block
	if !p.isResponse(r) || b.promise == 0 || p.streams.find(b.promise) != nil {
		return
	}
	s := p.add(b.promise)
	if s == nil {
		return
	}
	s.pushed, s.last = true, at
	h := p.requestOf(s)
	p.head(r, h)
	h.open, h.ended, h.side.Ended, h.side.Last = false, true, true, at
}

// beginData begins a DATA frame.
func (p *parser) beginData(r *reader) {
	if r.trust != trusted {
		return
	}
	if h := p.seeData(r, r.frame.stream, r.first); h != nil {
		h.count(r, headSize)
	}
}

// seeData goes on with a message that has content; nil where it is unknown.
func (p *parser) seeData(r *reader, id uint32, at int64) *half {
	s := p.streams.find(id)
	if s == nil || s.halves[r.direction].ended {
		return nil
	}
	s.last = max(s.last, at)
	h := &s.halves[r.direction]
	h.beginMissed()
	h.closeHead()
	h.doubtful = false
	return h
}

// countData counts n bytes of DATA, of which the first are known.
func (p *parser) countData(r *reader, known []byte, n, at int64) {
	s := p.streams.find(r.frame.stream)
	if s == nil || r.trust != trusted {
		return
	}
	h := &s.halves[r.direction]
	if h.ended {
		return
	}
	s.last, h.side.Last = at, at
	h.count(r, n)
	if r.state == stateData {
		h.body += n
		h.content.AddBody(known, n)
		if h.isGRPC {
			h.messages.Add(known, n)
		}
	}
}

// countPadding counts bytes of a frame that are no content.
func (p *parser) countPadding(r *reader, n int64) {
	if h := p.halfOf(r, r.frame.stream); h != nil && r.trust == trusted && !h.ended {
		h.count(r, n)
	}
}
