// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// how a conversation is cut and what of it is known.
type how struct {
	role    l7.Role
	largest int // bytes of a piece, 0 for what was transferred at once
	known   int // bytes of each piece that are known, 0 for all
	join    int // pieces that were before the connection was met
	losses  int // one piece in so many is lost, 0 for none
}

// at is a time and the offset that a direction had reached.
type at struct {
	offset      int
	first, last int64
}

// playback is what a conversation's pieces were.
type playback struct {
	pieces [2][]at
	now    int64
}

// play feeds the conversation.
func (c *conversation) play(rnd *rand.Rand, h how, l *listener) *playback {
	p := &playback{now: 1000}
	var offsets [2]int
	var lost, lostAt [2]int64
	n := 0
	for _, tr := range c.log {
		for data := tr.data; len(data) > 0; {
			size := len(data)
			if h.largest > 0 {
				size = min(size, 1+rnd.IntN(h.largest))
			}
			piece := p.piece(rnd, h, tr.dir, data[:size])
			data = data[size:]
			offsets[tr.dir] += size
			p.pieces[tr.dir] = append(p.pieces[tr.dir], at{offsets[tr.dir], piece.First(), piece.Ended})
			if n++; n <= h.join {
				continue
			}
			if h.losses > 0 && rnd.IntN(h.losses) == 0 {
				lost[tr.dir] += int64(size)
				lostAt[tr.dir] = piece.Ended
				continue
			}
			if lost[tr.dir] > 0 {
				piece.Lost, piece.LostAt = lost[tr.dir], lostAt[tr.dir]
				if rnd.IntN(2) == 0 {
					piece.Lost = l7.LostUnknown
				}
				lost[tr.dir] = 0
			}
			l.Feed(piece)
			for i := range piece.Data {
				piece.Data[i] = 0xff
			}
		}
	}
	return p
}

// piece makes the next piece.
func (p *playback) piece(rnd *rand.Rand, h how, dir int, data []byte) l7.Piece {
	began := p.now
	p.now += 1 + rnd.Int64N(50)
	piece := l7.Piece{Direction: h.role.RequestDirection(), Began: began, Ended: p.now, Length: int64(len(data))}
	if dir == 1 {
		piece.Direction = piece.Direction.Other()
	}
	p.now += rnd.Int64N(3)
	if h.known > 0 {
		data = data[:min(len(data), h.known)]
	}
	piece.Data = bytes.Clone(data)
	return piece
}

// when is the piece that has the byte at an offset.
func (p *playback) when(dir, offset int) at {
	for _, a := range p.pieces[dir] {
		if offset < a.offset {
			return a
		}
	}
	panic("no piece has it")
}

// complete adds to what is wanted what only the bytes show.
func (c *conversation) complete(t testing.TB, p *playback, role l7.Role) {
	var data [2][]byte
	for _, tr := range c.log {
		data[tr.dir] = append(data[tr.dir], tr.data...)
	}
	requests, paths, resets := extents(t, data[0])
	responses, _, refused := extents(t, data[1])
	sent := map[string]bool{}
	for id, target := range paths {
		path, _ := rfc9110.SplitPath([]byte(target))
		want := c.want[string(path)]
		sent[want.Path] = true
		want.Role = role.String()
		want.Request = p.side(0, requests[id], want.Request.Body)
		want.Response = p.side(1, responses[id], want.Response.Body)
		if want.Status == 0 && requests[id].ended {
			cause := l7.CauseUnknown // the connection was closed before the client could reset the stream
			switch {
			case resets[id]:
				cause = endOf(l7.RoleClient, role)
			case refused[id]:
				cause = endOf(l7.RoleServer, role)
			}
			want.Outcome, want.ErrorType = l7.Unanswered, l7.ErrorOfUnanswered(role, cause)
		}
		if want.ErrorType == "" {
			want.ErrorType = rfc9110.ErrorType(role, l7.Complete, l7.CauseUnknown, want.Status)
		}
		c.want[string(path)] = want
	}
	for path, want := range c.want {
		if want.Status == 0 && !sent[path] { // it was cancelled before
			delete(c.want, path)
		}
	}
}

func (p *playback) side(dir int, e *extent, body int64) l7.Side {
	if e == nil {
		return l7.Side{}
	}
	return l7.Side{
		Known: true, Ended: e.ended, First: p.when(dir, e.begin).first, Last: p.when(dir, e.end-1).last, Body: body, Whole: e.whole,
	}
}

// TestWhatTheClientDidIsToldExactly cuts conversations in many ways.
func TestWhatTheClientDidIsToldExactly(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		c := converse(t, rnd, 30, 1+int(seed%4)*4)
		for _, role := range []l7.Role{l7.RoleServer, l7.RoleClient} {
			for _, largest := range []int{0, 1, 30, 3000} {
				t.Run(fmt.Sprintf("%d, %s, up to %d", seed, role, largest), func(t *testing.T) {
					l := listen()
					p := c.play(rnd, how{role: role, largest: largest}, l)
					l.Close()
					c.complete(t, p, role)
					require.Len(t, l.reported, len(c.want))
					for _, got := range l.reported {
						want := c.want[got.Path]
						if want.Request.Body == l7.Unknown { // it was cancelled
							want.Request.Body = got.Request.Body
						}
						require.Equal(t, want, got)
					}
					require.Equal(t, l7.Stats{Exchanges: uint64(len(c.want))}, l.stats)
				})
			}
		}
	}
}

// requireRight holds that what was reported is what the client did, or unknown, and that each request was reported at most once.
func (c *conversation) requireRight(t *testing.T, all []reported) (complete int) {
	seen := map[string]int{}
	for _, got := range all {
		want, named := c.want[got.Path]
		if got.Path != "" && got.Path != l7.UnknownText {
			require.True(t, named, "%q was not requested", got.Path)
			seen[got.Path]++
			require.Equal(t, 1, seen[got.Path], "%s was reported twice", got.Path)
		}
		if of := got.ResponseFields; len(of) == 2 && of[1] != absent {
			require.Contains(t, c.want, of[1], "the fields of a response")
			if named {
				require.Equal(t, got.Path, of[1], "a response with another's request")
			}
			want, named = c.want[of[1]], true
		}
		if !named {
			continue
		}
		requireField(t, want, got)
		if got.Outcome == l7.Complete && got.Status != 0 && got.Request.Known && got.Path != l7.UnknownText && got.Method != l7.UnknownText {
			complete++
		}
	}
	return complete
}

func requireField(t *testing.T, want, got reported) {
	unknown := func(value, none string) bool { return value == none || value == l7.UnknownText }
	if !unknown(got.Method, "") {
		require.Equal(t, want.Method, got.Method, got.Path)
		require.Equal(t, want.Original, got.Original, got.Path)
	}
	if !unknown(got.Target, "") {
		require.Equal(t, want.Target, got.Target)
	}
	if got.Status != 0 {
		require.Equal(t, want.Status, got.Status, got.Path)
	}
	for i, value := range got.RequestFields {
		if value != absent {
			sent := want.RequestFields[i]
			if got.Request.Cut { // a field that comes twice may be known by half
				sent = sent[:min(len(value), len(sent))]
			}
			require.Equal(t, sent, value)
		} else if got.Request.Known && !got.Request.Cut {
			require.Equal(t, want.RequestFields[i], absent)
		}
	}
	for _, side := range [][2]l7.Side{{want.Request, got.Request}, {want.Response, got.Response}} {
		want, got := side[0], side[1]
		if got.First != 0 {
			require.Equal(t, want.First, got.First, "%+v", got)
		}
		if got.Ended {
			require.True(t, want.Ended)
			require.Equal(t, want.Last, got.Last, "%+v", got)
			if got.Body != l7.Unknown && want.Body != l7.Unknown {
				require.Equal(t, want.Body, got.Body, "%+v", got)
				require.Equal(t, want.Whole, got.Whole, "%+v", got)
			}
		}
	}
}

// TestWhatWasNotSeenIsUnknownAndNeverWrong joins late, loses pieces and knows only their beginnings.
func TestWhatWasNotSeenIsUnknownAndNeverWrong(t *testing.T) {
	complete, all := map[string]int{}, 0
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		c := converse(t, rnd, 60, 1+int(seed%3)*3)
		all += len(c.want)
		for name, h := range map[string]how{
			"beginnings of 512":       {known: 512},
			"beginnings of 64":        {known: 64},
			"joined":                  {join: 20},
			"joined, cut":             {join: 40, largest: 20000},
			"lost":                    {losses: 15},
			"lost, small":             {losses: 40, largest: 200},
			"beginnings, lost, later": {losses: 15, known: 300, join: 10},
		} {
			for _, role := range []l7.Role{l7.RoleServer, l7.RoleClient} {
				t.Run(fmt.Sprintf("%d, %s, %s", seed, name, role), func(t *testing.T) {
					h.role = role
					l := listen()
					p := c.play(rnd, h, l)
					l.Expire(p.now + 1)
					l.Close()
					c.complete(t, p, role)
					complete[name] += c.requireRight(t, l.reported)
				})
			}
		}
	}
	var share []string
	for name, n := range complete {
		share = append(share, fmt.Sprintf("%s: %d of %d", name, n, 2*all))
		require.Greater(t, n, all/20, name)
	}
	t.Log("reported completely: " + strings.Join(share, "; "))
}

// endOf is what a process of the role sees where the one of a role has ended something.
func endOf(ended, role l7.Role) l7.Cause {
	if ended == role {
		return l7.ClosedLocally
	}
	return l7.ClosedRemotely
}
