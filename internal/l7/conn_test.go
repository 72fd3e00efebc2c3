// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// greeting is a protocol whose requests begin with HELLO, whose responses begin with WORLD, and of which both ends say THERE.
type greeting struct{ heard *[]string }

func (greeting) Name() string { return "greeting" }

func (greeting) Classify(first []byte, all bool, _ Transport) Guess {
	for word, guess := range map[string]Guess{"HELLO": Request, "WORLD": Response, "THERE": Either} {
		switch {
		case bytes.HasPrefix(first, []byte(word)):
			return guess
		case all && strings.HasPrefix(word, string(first)):
			return Perhaps
		}
	}
	return No
}

func (g greeting) Open(role Role, _ Transport, _ *Sink) Parser {
	*g.heard = append(*g.heard, role.String())
	return greetingParser(g)
}

type greetingParser greeting

// Feed hears a piece; from BYE on another protocol is spoken.
func (p greetingParser) Feed(piece *Piece) bool {
	before, after, left := bytes.Cut(piece.Data, []byte("BYE"))
	*p.heard = append(*p.heard, string(before))
	piece.Data, piece.Length = after, int64(len(after))
	return left
}

func (greetingParser) Expire(int64)  {}
func (greetingParser) Idle() bool    { return true }
func (greetingParser) Recalls() bool { return false }
func (greetingParser) Close(*End)    {}
func (greetingParser) Held() int     { return 0 }

func TestConnFindsTheProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []Piece
		want   []string
		state  State
	}{
		"a server":              {[]Piece{{Direction: Read, Data: []byte("HELLO you")}}, []string{"server", "HELLO you"}, Decided},
		"a client":              {[]Piece{{Direction: Write, Data: []byte("HELLO")}}, []string{"client", "HELLO"}, Decided},
		"a client met later":    {[]Piece{{Direction: Write, Data: []byte("...")}, {Direction: Read, Data: []byte("WORLD")}}, []string{"client", "WORLD"}, Decided},
		"of an unknown end":     {[]Piece{{Direction: Write, Data: []byte("THERE")}}, []string{"unknown", "THERE"}, Decided},
		"single bytes":          {[]Piece{{Data: []byte("H")}, {Data: []byte("EL")}, {Data: []byte("LO!")}}, []string{"server", "H", "EL", "LO!"}, Decided},
		"what was none":         {[]Piece{{Data: []byte("HE")}, {Data: []byte("HELLO")}}, []string{"server", "HELLO"}, Decided},
		"lost between":          {[]Piece{{Data: []byte("HE")}, {Data: []byte("LLO"), Lost: LostUnknown}}, nil, Undecided},
		"the other one decides": {[]Piece{{Direction: Read, Data: []byte("HEL")}, {Direction: Write, Data: []byte("WORLD")}}, []string{"server", "HEL", "WORLD"}, Decided},
		"only a length":         {[]Piece{{Length: 100}, {Data: []byte("HELLO")}}, []string{"server", "HELLO"}, Decided},
		"changes its mind":      {[]Piece{{Data: []byte("HELLO BYE HELLO")}, {Data: []byte("x")}, {Direction: Write, Data: []byte("HELLO")}}, []string{"server", "HELLO ", "client", "HELLO"}, Decided},
		"at once":               {[]Piece{{Data: []byte("HELLO BYEWORLD")}}, []string{"server", "HELLO ", "client", "WORLD"}, Decided},
		"of no protocol":        {[]Piece{{Data: []byte("a")}, {Data: []byte("b")}, {Data: []byte("c")}, {Data: []byte("HELLO")}}, nil, GivenUp},
	} {
		t.Run(name, func(t *testing.T) {
			var heard []string
			sink := &Sink{Limits: Limits{Undecided: 3, Left: 3}, Stats: &Stats{}}
			conn := NewConn([]Protocol{greeting{&heard}}, TCP, RoleUnknown, sink)
			for _, p := range c.pieces {
				p.Length = max(p.Length, int64(len(p.Data)))
				conn.Feed(p)
			}
			require.Equal(t, c.want, heard)
			require.Equal(t, c.state, conn.State())
			require.Equal(t, c.state == Decided, conn.Protocol() == "greeting")
			require.Equal(t, c.state == GivenUp, sink.Stats.GivenUp == 1)
			require.Equal(t, c.state == GivenUp, conn.Astray())
			require.LessOrEqual(t, conn.Held(), int(unsafe.Sizeof(*conn)+unsafe.Sizeof(Piece{}))+64)
			conn.Expire(0)
			conn.Close()
		})
	}
}

// TestConnKnowsItsRole checks that who connected is not taken for who accepted because content looks like a message, and that it is where
// both ends say so.
func TestConnKnowsItsRole(t *testing.T) {
	request, response := Piece{Data: []byte("HELLO")}, Piece{Data: []byte("WORLD")}
	turned := func(p Piece) Piece { p.Direction = p.Direction.Other(); return p }
	for name, c := range map[string]struct {
		role   Role
		pieces []Piece
		want   []string
	}{
		"as it is known":              {RoleServer, []Piece{request}, []string{"server", "HELLO"}},
		"an unknown end is the one's": {RoleClient, []Piece{{Data: []byte("THERE")}}, []string{"client", "THERE"}},
		"content of a response":       {RoleServer, []Piece{turned(request), request, turned(response)}, []string{"server", "HELLO", "WORLD"}},
		"in two pieces":               {RoleServer, []Piece{{Direction: Write, Data: []byte("HE")}, {Direction: Write, Data: []byte("LLO")}, request}, []string{"server", "HELLO"}},
		"the other way round":         {RoleServer, []Piece{turned(request), response, turned(request), response}, []string{"client", "WORLD", "HELLO", "WORLD"}},
		"not known":                   {RoleUnknown, []Piece{turned(request)}, []string{"client", "HELLO"}},
	} {
		t.Run(name, func(t *testing.T) {
			var heard []string
			conn := NewConn([]Protocol{greeting{&heard}}, TCP, c.role, &Sink{Limits: Limits{Undecided: 5, Left: 5}, Stats: &Stats{}})
			for _, p := range c.pieces {
				p.Length = int64(len(p.Data))
				conn.Feed(p)
			}
			require.Equal(t, c.want, heard)
		})
	}
}

// watched is greeting whose parser keeps the pieces that it is fed.
type watched struct {
	greeting
	fed *[]Piece
}

func (w watched) Open(Role, Transport, *Sink) Parser { return watchedParser{fed: w.fed} }

type watchedParser struct {
	greetingParser
	fed *[]Piece
}

func (p watchedParser) Feed(piece *Piece) bool {
	fed := *piece
	fed.Data = bytes.Clone(fed.Data)
	*p.fed = append(*p.fed, fed)
	return false
}

// TestConnKeepsTheTimesOfABeginning checks that a protocol that is known late gets what was said before as it was said: each byte with the
// time of its own call, as something else than what came first may begin with it.
func TestConnKeepsTheTimesOfABeginning(t *testing.T) {
	var fed []Piece
	conn := NewConn([]Protocol{watched{fed: &fed}}, TCP, RoleUnknown, &Sink{Limits: Limits{Undecided: 3, Left: 3}, Stats: &Stats{}})
	pieces := []Piece{
		{Began: 10, Ended: 11, Data: []byte("H"), Lost: 3, LostAt: 9, Wire: Wire{Counted: true, Packets: 1, RTT: 5}},
		{Began: 20, Ended: 22, Data: []byte("EL"), Wire: Wire{Counted: true, Packets: 2, RTT: 6}},
		{Began: 30, Ended: 33, Data: []byte("L")},
		{Began: 40, Ended: 44, Data: []byte("O!")},
	}
	for i := range pieces {
		pieces[i].Length = int64(len(pieces[i].Data))
		fed := pieces[i]
		fed.Data = bytes.Clone(fed.Data)
		conn.Feed(fed)
		clear(fed.Data) // it is valid until the call returns
	}
	require.Equal(t, pieces, fed)
}

// TestConnBoundsABeginning checks that who reads byte by byte costs no more than so many pieces, and that nothing of them is missing.
func TestConnBoundsABeginning(t *testing.T) {
	var fed []Piece
	conn := NewConn([]Protocol{watched{fed: &fed}}, TCP, RoleUnknown, &Sink{Limits: Limits{Undecided: 3, Left: 3}, Stats: &Stats{}})
	waiting := &conn.waiting[Read]
	for i := range int64(maxBeginning) {
		waiting.add(&Piece{Began: 10 * i, Ended: 10*i + 1, Length: 1, Data: []byte{byte(i)}, Wire: Wire{Packets: 1}})
	}
	require.Len(t, waiting.pieces, maxBeginningPieces)
	require.Less(t, conn.Held(), 10<<10)
	conn.open(watched{fed: &fed}, Request, Read)
	conn.replay(waiting)
	require.Zero(t, conn.Held()-int(unsafe.Sizeof(*conn)))
	require.Len(t, fed, maxBeginningPieces)
	var packets, length int64
	for i, p := range fed {
		require.EqualValues(t, 10*i, p.Began)
		require.EqualValues(t, length, p.Data[0])
		packets, length = packets+p.Wire.Packets, length+int64(len(p.Data))
	}
	require.EqualValues(t, maxBeginning, length)
	require.EqualValues(t, maxBeginning, packets)
	require.EqualValues(t, 10*(maxBeginning-1)+1, fed[len(fed)-1].Ended)
}

// TestConnIsAstray checks that a connection on which nothing follows that is known is reported to be so soon after what was spoken has ended.
func TestConnIsAstray(t *testing.T) {
	var heard []string
	stats := &Stats{}
	conn := NewConn([]Protocol{greeting{&heard}}, TCP, RoleUnknown, &Sink{Limits: Limits{Undecided: 100, Left: 2}, Stats: stats})
	for i, text := range []string{"HELLO BYE", "x", "HELLO BYE", "x", "x"} {
		require.False(t, conn.Astray(), i)
		conn.Feed(Piece{Data: []byte(text), Length: int64(len(text))})
	}
	require.True(t, conn.Astray())
	require.Equal(t, []string{"server", "HELLO ", "server", "HELLO "}, heard)
	require.Zero(t, stats.GivenUp, "it was known once")
}
