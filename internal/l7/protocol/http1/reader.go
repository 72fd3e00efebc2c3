// SPDX-License-Identifier: Apache-2.0

package http1

import "github.com/otelcol-ebpf/ebpfreceiver/internal/l7"

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
	place  uint32   // and its position
	idle   int64    // ns before it in which the connection was quiet
	last   int64    // time of the last byte of the last piece
	cur    *message // being read, or nil if it is not kept
	// opening are the calls that have transferred the start line, where contents are kept.
	opening l7.Opening
}

func newReader(f *fields, kind l7.Guess, limit int) reader {
	return reader{stream: l7.NewStream(limit), fields: f, kind: kind, unsure: true}
}

// held is the number of bytes of memory held in addition to the reader itself.
func (r *reader) held() int { return r.stream.Held() + r.opening.Held() }

// idles reports whether nothing of a message was read.
func (r *reader) idles() bool {
	return (r.state == stateStart || r.state == stateSearch) && !r.stream.Carrying()
}

// begins reports whether a message of this direction seems to begin here.
func (r *reader) begins(piece *l7.Piece) bool {
	return classify(piece.Data, int64(len(piece.Data)) >= piece.Length) == r.kind
}

// beginPiece looks whether a message begins with the piece, where it is not known what the direction says next.
func (p *parser) beginPiece(r *reader, piece *l7.Piece) {
	if r.kind == l7.Request {
		p.resyncQuiet(piece)
	}
	switch r.state {
	case stateSearch:
		if r.kind == l7.Response || p.mayBegin(piece) {
			r.state = stateStart
		}
	case stateStart:
		if r.unsure && r.stream.Carrying() && (r.begins(piece) || classify(r.stream.Carry(), true) == l7.No) {
			p.forget(r) // it is the end of something that was not seen
		}
	case stateTail, stateClose:
		// Where no request waits for another response, what looks like one is content.
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

// bodyWithheld reports whether the body may never come, since the client asked for leave to send it and got its response.
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
