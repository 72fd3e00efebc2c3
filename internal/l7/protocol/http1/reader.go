// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// state is what a direction says next.
type state uint8

const (
	stateStart state = iota // a message
	stateSearch
	stateFields
	stateBody
	stateChunkSize
	stateChunk
	stateChunkEnd
	stateTrailer
	stateClose // a body that ends with the connection
	stateTail  // what is left of a message whose end cannot be found
)

// reader reads the messages of one direction.
type reader struct {
	stream l7.Stream
	fields *fields
	kind   l7.Guess // of its messages
	state  state
	unsure bool     // it is not certain that a message begins where it is looked for
	ended  bool     // a message has ended in this call
	tail   tail     // in stateTail
	left   int64    // bytes left of the body or chunk, or that trailers may have
	first  int64    // time of the first byte of the start line
	begin  int64    // and its offset
	idle   int64    // ns before it in which the connection was quiet
	last   int64    // time of the last byte of the last piece
	cur    *message // being read, or nil if it is not kept
	// opening are the calls that have transferred the start line, where contents are kept.
	opening l7.Opening
}

func newReader(f *fields, kind l7.Guess, limit int) reader {
	return reader{stream: l7.NewStream(limit), fields: f, kind: kind, unsure: true}
}

// held is the number of bytes of memory held beside the reader itself.
func (r *reader) held() int { return r.stream.Held() + r.opening.Held() }

// idles tells whether nothing of a message was read.
func (r *reader) idles() bool {
	return (r.state == stateStart || r.state == stateSearch) && !r.stream.Carrying()
}

// begins tells whether a message of this direction seems to begin here.
func (r *reader) begins(piece *l7.Piece) bool {
	return classify(piece.Data, int64(len(piece.Data)) >= piece.Length) == r.kind
}

// beginPiece looks whether a message begins with the piece, where it is not known what the direction says next.
func (p *parser) beginPiece(r *reader, piece *l7.Piece) {
	switch r.state {
	case stateSearch:
		r.state = stateStart
	case stateStart:
		if r.unsure && r.stream.Carrying() && (r.begins(piece) || classify(r.stream.Carry(), true) == l7.No) {
			p.forget(r) // it is the end of something that was not seen
		}
	case stateTail, stateClose:
		// With nobody waiting for another response, what looks like one is content.
		if (r.state == stateTail || p.pending.Len() > 1) && r.begins(piece) {
			p.finish(r, r.last)
			r.unsure = true
		}
	case stateBody, stateChunkSize:
		if p.bodyWithheld(r) && r.begins(piece) {
			p.finish(r, r.last)
		}
	}
}

// forget drops what came before the piece and is no beginning of a message.
func (p *parser) forget(r *reader) {
	r.stream.Forget()
	p.doubt(r)
	if r.kind == l7.Response {
		p.refused = r.last
	}
}

// bodyWithheld tells whether the body may never come, since the client asked for leave to send it and got its response.
func (p *parser) bodyWithheld(r *reader) bool {
	q := p.response.request
	return r.kind == l7.Request && q != nil && &q.message == r.cur && q.expects && q.body == 0 && !r.stream.Carrying() && p.response.done
}

// step reads the next part of a message. It returns false when the piece has no more of it.
func (p *parser) step(r *reader, piece *l7.Piece) bool {
	switch r.state {
	case stateStart:
		return p.readStart(r, piece)
	case stateFields:
		return p.readFields(r, piece)
	case stateBody:
		if !r.skipBody() {
			return false
		}
		p.finish(r, piece.Ended)
		return !p.left
	case stateChunkSize, stateChunkEnd, stateTrailer:
		return p.readChunkLine(r, piece)
	case stateChunk:
		if !r.skipBody() {
			return false
		}
		r.state = stateChunkEnd
		return true
	case stateClose, stateTail:
		p.readTail(r, piece)
	case stateSearch:
		r.stream.Drop()
	}
	return false
}

// readStart reads a start line.
func (p *parser) readStart(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	if !r.stream.Carrying() {
		r.first, r.begin = piece.First(), r.stream.Offset()
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

// skipBody passes over the body or chunk and tells whether that was all of it.
func (r *reader) skipBody() bool {
	data := r.stream.Peek()
	n := r.stream.Skip(r.left)
	r.left -= n
	if r.cur != nil {
		r.cur.body += n
		r.cur.content.AddBody(data[:min(n, int64(len(data)))], n)
	}
	return r.left == 0
}

// readChunkLine reads what is between chunks and after them.
func (p *parser) readChunkLine(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	if r.state == stateChunkEnd && r.skipLineEnd() {
		r.state = stateChunkSize
		return true
	}
	before := r.stream.Offset()
	line, got := r.stream.Line()
	if r.state == stateTrailer {
		r.left -= r.stream.Offset() - before
	}
	switch {
	case got == l7.More:
		if r.endless(p.sink.Limits) {
			p.loseFraming(r)
		}
		return false
	case r.state == stateTrailer && r.left < 0:
		p.loseFraming(r)
	case got != l7.Whole && r.state != stateTrailer, got == l7.Hole:
		p.loseFraming(r)
		if got == l7.Hole {
			p.hideRest(r)
		}
	case r.state == stateTrailer:
		if len(line) == 0 {
			p.finish(r, piece.Ended)
		}
	case r.state == stateChunkEnd:
		r.state = stateChunkSize
		if len(line) > 0 {
			p.loseFraming(r)
		}
	default:
		p.beginChunk(r, line)
	}
	return !p.left
}

// skipLineEnd passes over the end of a chunk's content, with which the piece ends, where its bytes are not known: nothing else may be there.
func (r *reader) skipLineEnd() bool {
	const lineEnd = int64(len("\r\n"))
	if len(r.stream.Peek()) > 0 || r.stream.Carrying() || r.stream.Left() != lineEnd {
		return false
	}
	r.stream.Skip(lineEnd)
	return true
}

// beginChunk goes on with the chunk whose size the line tells.
func (p *parser) beginChunk(r *reader, line []byte) {
	size, ok := chunkSize(line)
	switch {
	case !ok:
		p.loseFraming(r)
	case size == 0:
		r.state, r.left = stateTrailer, p.sink.Limits.Head
	default:
		r.state, r.left = stateChunk, size
	}
}

// endless tells whether what is between chunks, or after them, is longer than any that has an end: of trailers left says how much longer
// they may be.
func (r *reader) endless(limits l7.Limits) bool {
	if r.state == stateTrailer {
		return r.left < 0
	}
	return r.stream.Carried() > int64(limits.Line)
}

// readTail passes over a message without a known end. One in chunks ends where the piece ends as the last chunk does.
func (p *parser) readTail(r *reader, piece *l7.Piece) {
	m, data := r.cur, r.stream.Peek()
	whole := int64(len(data)) == r.stream.Left()
	ends := r.tail.ends(data, whole) && m != nil && r.state == stateTail && m.chunked
	n := r.stream.Drop()
	if m != nil && m.body >= 0 {
		m.body += n
	}
	if m != nil && r.state == stateClose {
		m.content.AddBody(data, n)
	}
	if ends {
		p.finish(r, piece.Ended)
		r.unsure = true
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

// loseFraming goes on with a message whose end cannot be found.
func (p *parser) loseFraming(r *reader) {
	p.sink.Stats.Cut++
	r.stream.Forget()
	r.state, r.tail = stateTail, 0
	if r.cur != nil {
		r.cur.side.Cut, r.cur.body = true, l7.Unknown
		r.cur.content.CutBody()
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

// finish ends the message being read at the given time.
func (p *parser) finish(r *reader, at int64) {
	if r.cur != nil {
		r.cur.end(at, r.stream.Offset())
		r.cur.side.Ended = true
		r.cur.content.EndCall(r.stream.Offset())
	}
	cur := r.cur
	r.state, r.unsure, r.cur, r.ended = stateStart, false, nil, true
	if r.kind == l7.Request {
		p.requestDone(cur)
	} else {
		p.responseDone()
	}
}
