// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// known is a piece of which all bytes are known.
func known(text string) *Piece { return &Piece{Length: int64(len(text)), Data: []byte(text)} }

func TestLinesAreTheSameHoweverTheyAreCut(t *testing.T) {
	const text = "one\r\n\r\nthree\nfour \r\r\n\nsix\r\n"
	want := []string{"one", "", "three", "four \r", "", "six"}
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := NewStream(100)
		var got []string
		for rest := text; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			s.Begin(known(rest[:n]))
			rest = rest[n:]
			for {
				line, more := s.Line()
				if more == More {
					break
				}
				require.Equal(t, Whole, more)
				got = append(got, string(line))
			}
		}
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, int64(len(text)), s.Offset())
		require.LessOrEqual(t, s.Held(), 128)
	}
}

func TestWhatIsLongerThanTheLimitIsCut(t *testing.T) {
	s := NewStream(4)
	for range 3 {
		s.Begin(known("abc"))
		_, got := s.Line()
		require.Equal(t, More, got)
	}
	s.Begin(known("\nnext\n"))
	line, got := s.Line()
	require.Equal(t, "abca", string(line))
	require.Equal(t, Short, got)
	line, got = s.Line()
	require.Equal(t, "next", string(line))
	require.Equal(t, Whole, got)

	s.Begin(known("12345"))
	_, got = s.Take(7)
	require.Equal(t, More, got)
	s.Begin(known("678"))
	record, got := s.Take(7)
	require.Equal(t, "1234", string(record))
	require.Equal(t, Short, got)
	require.Equal(t, "8", string(s.Peek()), "it was consumed all the same")
	require.LessOrEqual(t, s.Held(), 8)
}

func TestHolesEndWhatIsKnown(t *testing.T) {
	s := NewStream(100)
	s.Begin(known("begin"))
	_, got := s.Line()
	require.Equal(t, More, got)
	s.Begin(&Piece{Length: 10, Data: []byte("ning")})
	line, got := s.Line()
	require.Equal(t, "beginning", string(line))
	require.Equal(t, Hole, got)
	require.Equal(t, int64(6), s.Left())
	require.Equal(t, int64(4), s.Skip(4))
	require.Equal(t, int64(2), s.Skip(100))
	require.Equal(t, int64(15), s.Offset())

	s.Begin(&Piece{Length: 3, Data: []byte("longer than the piece")})
	require.Equal(t, "lon", string(s.Peek()), "no piece has more than its length")
	s.Begin(&Piece{Length: -1, Data: []byte("x")})
	require.Equal(t, int64(0), s.Left())
	require.Equal(t, int64(18), s.Offset(), "what was left was passed over")
}

func TestSkipLinesStopsWhereItShould(t *testing.T) {
	var wanted Beginnings
	wanted.Want("b3")
	wanted.Want("content")
	wanted.Want("Content")
	wanted.Want("\n")
	s := NewStream(100)
	s.Begin(known("a: 1\nconnection: 2\nCookie: 3\nb2: 4\nconTent: 5\nx\n\na: 6\na: "))
	for _, want := range []string{"b2: 4", "conTent: 5", "", "a: "} {
		require.True(t, s.SkipLines(&wanted) || want == "conTent: 5", want)
		require.False(t, s.SkipLines(&wanted), want)
		line, got := s.Line()
		require.Equal(t, got == Whole, want != "a: ", "the last is not whole")
		if got == Whole {
			require.Equal(t, want, string(line))
		}
	}
	s.Begin(known("7\n"))
	require.False(t, s.SkipLines(&wanted), "the line began before")
	line, _ := s.Line()
	require.Equal(t, "a: 7", string(line))
}
