// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// reference is what a Stream is to do, written down without care for memory: it keeps all that a line or record had before.
type reference struct {
	limit  int
	known  []byte
	hole   int64
	carry  []byte
	offset int64
}

func (m *reference) begin(known []byte, hole int64) {
	m.drop()
	m.known, m.hole = known, hole
}

func (m *reference) drop() { m.skip(m.left()) }

func (m *reference) left() int64 { return int64(len(m.known)) + m.hole }

func (m *reference) skip(n int64) int64 {
	n = min(n, m.left())
	known := min(n, int64(len(m.known)))
	m.known, m.hole = m.known[known:], m.hole-(n-known)
	m.offset += n
	return n
}

// take is what a line or record has that ends with the n-th known byte of the piece, or, with n < 0, in none of them.
func (m *reference) take(n int) (text []byte, got Got) {
	got = Whole
	if n < 0 {
		n, got = len(m.known), More
		if m.hole > 0 {
			got = Hole
		}
	}
	m.carry = append(bytes.Clone(m.carry), m.known[:n]...)
	m.skip(int64(n))
	if got == More {
		return nil, More
	}
	text, m.carry = m.carry, nil
	return text, got
}

// require holds that the stream has answered as the reference does: what a record had in pieces before is cut to the limit.
func (m *reference) require(t *testing.T, text []byte, got Got, want []byte, wanted Got, joined bool) {
	t.Helper()
	if wanted == More {
		require.Equal(t, More, got)
		return
	}
	if joined && len(want) > m.limit {
		want = want[:m.limit]
		if wanted == Whole {
			wanted = Short
		}
	}
	require.Equal(t, wanted, got)
	require.Equal(t, string(want), string(text))
}

// FuzzStream cuts the input into pieces of which the ends are not known, some of them empty, and has them read by lines, records and
// numbers of bytes in any order: what is reported is what the reference reports, and no more is held than the limit.
func FuzzStream(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\nbody\n\nmore"), uint64(1))
	f.Add([]byte("\n\r\n\r\r\n"), uint64(2))
	f.Add(bytes.Repeat([]byte("a long line "), 40), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		data = data[:min(len(data), 1<<10)]
		limit := 1 + rnd.IntN(64)
		s, m := NewStream(limit), &reference{limit: limit}
		for len(data) > 0 {
			n := rnd.IntN(len(data) + 1)
			piece := &Piece{Length: int64(n), Data: bytes.Clone(data[:n])}
			if rnd.IntN(3) == 0 {
				piece.Length += int64(rnd.IntN(100))
			}
			data = data[max(n, 1):]
			s.Begin(piece)
			m.begin(piece.Data, piece.Length-int64(n))
			for range 1 + rnd.IntN(6) {
				step(t, rnd, &s, m)
				require.Equal(t, m.offset, s.Offset())
				require.Equal(t, m.left(), s.Left())
				require.Equal(t, string(m.known), string(s.Peek()))
				require.EqualValues(t, len(m.carry), s.Carried())
				require.LessOrEqual(t, s.Held(), 2*limit+64)
			}
			clear(piece.Data) // what spans pieces was copied
			m.known = piece.Data[len(piece.Data)-len(m.known):]
		}
	})
}

// step asks both for the same.
func step(t *testing.T, rnd *rand.Rand, s *Stream, m *reference) {
	joined := len(m.carry) > 0
	switch rnd.IntN(6) {
	case 0, 1:
		end := bytes.IndexByte(m.known, '\n')
		n := end + 1
		if end < 0 {
			n = -1
		}
		want, wanted := m.take(n)
		if cut := joined && len(want) > m.limit; wanted == Whole && !cut {
			want = bytes.TrimSuffix(want[:len(want)-1], []byte("\r"))
		}
		text, got := s.Line()
		m.require(t, text, got, want, wanted, joined || wanted == Hole)
	case 2:
		size := len(m.carry) + rnd.IntN(40)
		n := size - len(m.carry)
		if n > len(m.known) {
			n = -1
		}
		want, wanted := m.take(n)
		text, got := s.Take(size)
		m.require(t, text, got, want, wanted, joined || wanted == Hole)
	case 3:
		if joined {
			return // who has the beginning of a line does not pass over what follows
		}
		n := int64(rnd.IntN(50))
		require.Equal(t, m.skip(n), s.Skip(n))
	case 4:
		m.carry = nil
		s.Forget()
	case 5:
		n := int64(rnd.IntN(10))
		m.offset += n
		s.Pass(n)
	}
}
