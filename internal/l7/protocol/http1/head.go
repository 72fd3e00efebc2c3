// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// readStart reads a start line.
func (p *parser) readStart(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	if r.kind == l7.Request && p.sync == candidate {
		p.unconfirm() // more of its direction follows before its response
		return true
	}
	if !r.stream.Carrying() {
		r.first, r.begin, r.place = piece.First(), r.stream.Offset(), r.stream.Position()
		r.idle = r.first - p.last
		r.opening.Reset()
	}
	if contents := p.sink.Contents; contents != nil {
		r.opening.Add(piece.Call(r.stream.Left()), r.stream.Offset(), contents.Calls)
	}
	line, got := r.stream.Line()
	switch {
	case got == l7.More:
		return false
	case len(line) == 0 && got == l7.Whole: // RFC 9112, section 2.2
		return true
	case len(line) == 0:
		p.missRest(r, piece)
		return true
	case !p.startLine(r, line, got):
		if got == l7.Hole && !r.unsure {
			p.missRest(r, piece)
		} else {
			p.refuse(r, piece)
		}
		return true
	}
	r.state = stateFields
	if got == l7.Hole {
		p.cutHead(r)
		p.hideRest(r)
	}
	return true
}

// missRest goes on where a message begins, at the latest, in what is not known of the piece.
func (p *parser) missRest(r *reader, piece *l7.Piece) {
	p.sink.Stats.Losses++
	p.hideRest(r)
	p.miss(r, piece.Ended)
}

// hideRest notes that messages may be in what is not known of the piece. Where a request has ended in it, and was not the last, they are pipelined.
// Of responses it is minded when the one under way has ended: it is still that of its request.
func (p *parser) hideRest(r *reader) {
	if r.kind == l7.Request {
		p.lossy, p.hidden = true, true
		p.pipelined = p.pipelined || r.ended
	}
}

// startLine begins a message, if the line begins one.
func (p *parser) startLine(r *reader, line []byte, got l7.Got) bool {
	if r.kind == l7.Request {
		return p.beginRequest(line, got)
	}
	return p.beginResponse(line, got)
}

// refuse passes over a piece that goes on with what is no message.
func (p *parser) refuse(r *reader, piece *l7.Piece) {
	if !r.unsure {
		p.sink.Stats.Invalid++
	}
	p.doubt(r)
	if r.kind == l7.Response {
		p.refused = piece.Ended
	}
	if r.kind == l7.Request && p.sync == answered {
		p.sync = unsynced // a body goes on
	}
	r.state, r.unsure = stateSearch, true
}

// readFields reads field lines up to the end of the head.
func (p *parser) readFields(r *reader, piece *l7.Piece) bool {
	for {
		if (r.cur == nil || r.cur.content == nil) && r.stream.SkipLines(&r.fields.lines) && r.cur != nil {
			r.cur.last = nil
		}
		line, got := r.stream.Line()
		switch got {
		case l7.More:
			if r.stream.Offset()-r.begin > p.sink.Limits.Head {
				p.cutHead(r)
			}
			return false
		case l7.Hole:
			p.cutHead(r)
			p.hideRest(r)
			return true
		case l7.Whole, l7.Short:
		}
		if len(line) == 0 {
			p.endHead(r, piece)
			return !p.left
		}
		p.fieldLine(r, line, got)
	}
}

// fieldLine keeps what is wanted of a field.
func (p *parser) fieldLine(r *reader, line []byte, got l7.Got) {
	m := r.cur
	if m == nil {
		return
	}
	m.content.AddField(line)
	if line[0] == ' ' || line[0] == '\t' {
		m.fold(bytes.Trim(line, " \t"), p.sink.Limits.Values)
		return
	}
	m.last = nil
	f := r.fields.find(line)
	if f == nil {
		return
	}
	m.side.Cut = m.side.Cut || got == l7.Short
	p.useField(r, f, f.value(line))
}

// useField keeps a field's value and takes what the parser itself needs of it.
func (p *parser) useField(r *reader, f *field, value []byte) {
	m, limit := r.cur, p.sink.Limits.Values
	if f.asked >= 0 {
		m.add(&m.asked[f.asked], value, limit)
	}
	switch f.use {
	case useContentLength:
		m.addLength(value)
	case useTransferEncoding:
		m.addEncoding(value)
	case useHost:
		p.reading.host = m.keep(value, limit)
	case useExpect:
		p.reading.expects = true
	case useUpgrade:
		p.response.upgrade = m.keep(value, limit)
	case useNone:
	}
}

// cutHead goes on after a head whose end is missing.
func (p *parser) cutHead(r *reader) {
	p.loseFraming(r)
	if r.cur != nil {
		r.cur.chunked = false // it is not known whether its body has begun
	}
	if r.kind == l7.Response {
		p.response.headed = true
	}
}

// endHead goes on with what follows a head.
func (p *parser) endHead(r *reader, piece *l7.Piece) {
	switch p.extent(r) {
	case extentNone:
		p.finish(r, piece.Ended)
	case extentLength:
		r.state, r.left = stateBody, r.cur.length
	case extentChunked:
		r.state = stateChunkSize
	case extentClose:
		r.state = stateClose
	case extentUnknown:
		p.loseFraming(r)
	case extentLeave:
		p.finish(r, piece.Ended)
		p.leave()
	case extentInterim:
		p.response.active, p.response.request = false, nil
		r.state, r.unsure, r.cur = stateStart, false, nil
	}
}

// extent is how the body ends of the message whose head was read.
func (p *parser) extent(r *reader) extent {
	if r.kind == l7.Request {
		if p.reading == nil {
			return extentUnknown
		}
		return p.reading.ofRequest(p.reading.version)
	}
	p.response.headed = true
	return p.response.ofResponse(p.response.request.sent(), p.response.status, p.response.version)
}
