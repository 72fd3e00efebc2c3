// SPDX-License-Identifier: Apache-2.0

package http1

import "github.com/otelcol-ebpf/ebpfreceiver/internal/l7"

// skipBody passes over the body or chunk and reports whether that was all of it.
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

// beginChunk goes on with the chunk whose size the line has.
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

// endless reports whether what is between chunks, or after them, is longer than any that has an end: of trailers left says how much longer
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
