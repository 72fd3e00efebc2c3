// SPDX-License-Identifier: Apache-2.0

package l7

import "bytes"

// Got is how much of what was asked for a Stream has.
type Got uint8

const (
	// Whole says that all of it is there.
	Whole Got = iota
	// Short says that it was longer than the limit: what is there is its beginning.
	Short
	// More says that it ends in a later piece.
	More
	// Hole says that the rest of it is in bytes that are missing: what is there is its beginning.
	Hole
)

// Stream is one direction of a connection, put together from its pieces. It keeps a copy only of a line or record that began in an
// earlier piece, and no more of it than its limit. What it returns is valid until it is asked again.
type Stream struct {
	limit   int
	data    []byte // what is known of the piece and not consumed
	hole    int64  // bytes of the piece after data, of which only the number is known
	carry   []byte // what a line or record had in pieces before
	short   bool   // there was more of it
	offset  int64  // bytes consumed since the connection was met
	carried int64  // bytes of the line or record in pieces before, kept or not
	origin  uint32 // position of the byte at offset 0, as [Piece] has it, by the last piece
	placed  bool   // origin is known
}

// NewStream makes a stream that keeps up to limit bytes of what spans pieces.
func NewStream(limit int) Stream { return Stream{limit: limit} }

// Begin goes on with the next piece. What was left of the last one is passed over.
func (s *Stream) Begin(p *Piece) {
	s.Drop()
	s.data = p.Data[:min(int64(len(p.Data)), max(p.Length, 0))]
	s.hole = max(p.Length, 0) - int64(len(s.data))
	s.origin, s.placed = p.Position-uint32(s.offset), p.Position != 0
}

// Offset is the number of bytes consumed.
func (s *Stream) Offset() int64 { return s.offset }

// Position is that of the next byte, as [Piece] has it; 0 where it is not known.
func (s *Stream) Position() uint32 {
	if !s.placed {
		return 0
	}
	return s.origin + uint32(s.offset)
}

// Left is the number of bytes of the piece that are not consumed, known or not.
func (s *Stream) Left() int64 { return int64(len(s.data)) + s.hole }

// Peek is what is known of the bytes to come in this piece.
func (s *Stream) Peek() []byte { return s.data }

// Carrying reports whether a line or record began in a piece before.
func (s *Stream) Carrying() bool { return s.carried > 0 }

// Carried is how many bytes a line or record had in pieces before, kept or not.
func (s *Stream) Carried() int64 { return s.carried }

// Carry is what is kept of a line or record of pieces before.
func (s *Stream) Carry() []byte { return s.carry }

// Forget drops what a line or record had in pieces before.
func (s *Stream) Forget() { s.carry, s.short, s.carried = s.carry[:0], false, 0 }

// Held is the number of bytes of memory held.
func (s *Stream) Held() int { return cap(s.carry) }

// Drop passes over the rest of the piece and returns its size.
func (s *Stream) Drop() int64 {
	n := s.Left()
	s.data, s.hole = nil, 0
	s.offset += n
	return n
}

// Skip passes over n bytes, or as many as the piece has, known or not, and returns their number.
func (s *Stream) Skip(n int64) int64 {
	known := min(n, int64(len(s.data)))
	unknown := min(n-known, s.hole)
	s.data = s.data[known:]
	s.hole -= unknown
	s.offset += known + unknown
	return known + unknown
}

// Pass counts n bytes that are missing before the piece as consumed.
func (s *Stream) Pass(n int64) { s.offset += n }

// Line consumes a line and returns it without its end, which is a line feed, with or without a carriage return before it.
func (s *Stream) Line() ([]byte, Got) {
	end := bytes.IndexByte(s.data, '\n')
	if end < 0 || s.carried > 0 {
		return s.joinedLine(end)
	}
	line := s.data[:end]
	s.data = s.data[end+1:]
	s.offset += int64(end) + 1
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	return line, Whole
}

// Beginnings are lines that are wanted, by their first byte and the lower five bits of their fourth, which are a letter's in upper and
// lower case. The zero value wants none.
type Beginnings [256]uint32

const anyFourth = ^uint32(0)

// Want wants lines that begin with the text, in this case; all that begin with its first byte if it is shorter than four.
func (b *Beginnings) Want(text string) {
	const fourth = 3
	if len(text) <= fourth {
		b[text[0]] = anyFourth
		return
	}
	b[text[0]] |= 1 << (text[fourth] & 31)
}

// SkipLines passes over whole lines of the piece that are not wanted, up to the first that may be, and reports whether there were any.
func (s *Stream) SkipLines(wanted *Beginnings) bool {
	if s.carried > 0 {
		return false
	}
	data := s.data
	for len(data) > 3 && wanted[data[0]]>>(data[3]&31)&1 == 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			break
		}
		data = data[end+1:]
	}
	skipped := len(s.data) - len(data)
	s.offset += int64(skipped)
	s.data = data
	return skipped > 0
}

// joinedLine is Line where the line spans pieces; end is where it ends in this one, or negative.
func (s *Stream) joinedLine(end int) ([]byte, Got) {
	if end >= 0 {
		line, got := s.join(end + 1)
		if got == Short {
			return line, Short
		}
		return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), Whole
	}
	return s.rest()
}

// Take consumes n bytes and returns them. Of more than the limit, what is there is their beginning.
func (s *Stream) Take(n int) ([]byte, Got) {
	missing := n - int(s.carried)
	if missing > len(s.data) {
		return s.rest()
	}
	if s.carried == 0 {
		record := s.data[:n]
		s.data = s.data[n:]
		s.offset += int64(n)
		return record, Whole
	}
	return s.join(missing)
}

// rest keeps what is known of the piece for what ends later.
func (s *Stream) rest() ([]byte, Got) {
	if s.hole == 0 {
		s.keep(len(s.data))
		return nil, More
	}
	record, _ := s.join(len(s.data))
	return record, Hole
}

// join puts n bytes to what was in pieces before and returns all.
func (s *Stream) join(n int) ([]byte, Got) {
	s.keep(n)
	record, got := s.carry, Whole
	if s.short {
		got = Short
	}
	s.Forget()
	return record, got
}

// keep consumes n bytes and keeps them as far as the limit allows.
func (s *Stream) keep(n int) {
	kept := min(n, s.limit-len(s.carry))
	s.short = s.short || kept < n
	s.carry = append(s.carry, s.data[:kept]...)
	s.data = s.data[n:]
	s.offset += int64(n)
	s.carried += int64(n)
}
