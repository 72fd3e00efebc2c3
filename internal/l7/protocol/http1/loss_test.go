// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// loser loses pieces of a conversation at random.
type loser struct {
	rnd     *rand.Rand
	percent int
	most    int // bytes of a piece that are known; 0: all
	feed    func(l7.Piece)
	bytes   [2]int64 // lost since the last piece of the direction
	at      [2]int64
	lost    int // pieces
	cut     int // pieces of which not all is known
}

func (l *loser) take(p l7.Piece) {
	d := p.Direction
	if l.rnd.IntN(100) < l.percent {
		l.bytes[d] += p.Length
		l.at[d] = p.Ended
		l.lost++
		return
	}
	if p.Lost, p.LostAt = l.bytes[d], l.at[d]; p.Lost > 0 && l.rnd.IntN(2) == 0 {
		p.Lost = l7.LostUnknown
	}
	l.bytes[d] = 0
	if l.most > 0 && len(p.Data) > l.most {
		p.Data = p.Data[:l.most]
		l.cut++
	}
	l.feed(p)
}

// TestWhatIsToldAfterLossIsRight loses pieces of conversations whose responses say whose they are: no response is reported with another's
// request, and what is reported as whole has its true sizes and times. Where no more is lost, all is reported again.
func TestWhatIsToldAfterLossIsRight(t *testing.T) {
	for _, role := range []l7.Role{l7.RoleServer, l7.RoleClient} {
		for _, pipelined := range []bool{false, true} {
			for _, largest := range []int{300, 5000} {
				for _, percent := range []int{2, 20, 50} {
					h := how{role: role, pipelined: pipelined, largest: largest, headsOnly: percent == 20}
					t.Run(fmt.Sprintf("%s, pipelined %v, up to %d, %d %%", role, pipelined, largest, percent), func(t *testing.T) {
						whole := 0
						for seed := range uint64(20) {
							whole += requireTrue(t, seed, h, loser{percent: percent})
						}
						require.Positive(t, whole, "nothing was reported as whole")
					})
				}
			}
		}
	}
}

// TestWhatIsToldOfCutPiecesIsRight does the same where of each piece the beginning alone is known, as of long transfers: it ends within a head, a
// body or between two messages, and others may follow unseen.
func TestWhatIsToldOfCutPiecesIsRight(t *testing.T) {
	for _, role := range []l7.Role{l7.RoleServer, l7.RoleClient} {
		for _, pipelined := range []bool{false, true} {
			for _, largest := range []int{1000, 5000, 20000} {
				for _, most := range []int{60, 250, 999, 4000} {
					for _, percent := range []int{0, 10} {
						h := how{role: role, pipelined: pipelined, largest: largest}
						t.Run(fmt.Sprintf("%s, pipelined %v, up to %d, of which %d, %d %%", role, pipelined, largest, most, percent), func(t *testing.T) {
							for seed := range uint64(10) {
								requireTrue(t, seed, h, loser{percent: percent, most: most})
							}
						})
					}
				}
			}
		}
	}
}

// requireTrue returns how many exchanges were reported as whole.
func requireTrue(t *testing.T, seed uint64, h how, lose loser) (whole int) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	c := generate(t, rnd, 20, h.role)
	for !c.marked {
		c = generate(t, rnd, 20, h.role)
	}
	l := listen()
	if h.pipelined { // which a connection is not known to do before it did
		l.play(t, script{reads(get + get), writes(ok + ok)}, h.role == l7.RoleClient)
		require.Len(t, l.reported, 2)
		l.reported = nil
	}
	lose.rnd, lose.feed = rnd, l.Feed
	c.play(rnd, h, lose.take)
	before := max(0, len(l.reported)-1)
	l.Close()
	if lose.bytes[0]+lose.bytes[1] > 0 && len(l.reported) > 0 {
		l.reported = l.reported[:min(before, len(l.reported)-1)] // what was lost of the last was not reported
	}
	for _, x := range l.reported {
		if !x.Request.Known || !x.Response.Known {
			continue
		}
		if x.Outcome == l7.Complete && isWhole(x.Request) && isWhole(x.Response) {
			require.Contains(t, c.want, x, "seed %d", seed)
			whole++
		}
		require.True(t, slices.ContainsFunc(c.want, func(want reported) bool { return mayBe(x, want) }), "seed %d: no request was answered so: %+v", seed, x)
	}
	return whole
}

// mayBe reports whether what was reported is the exchange, as far as it was seen.
func mayBe(x, want reported) bool {
	if x.Target != want.Target && !(x.Request.Cut && strings.HasPrefix(want.Target, x.Target)) {
		return false
	}
	field := x.ResponseFields[0]
	return x.Status == want.Status && (field == want.ResponseFields[0] || x.Response.Cut && (field == absent || strings.HasPrefix(want.ResponseFields[0], field)))
}

func isWhole(s l7.Side) bool { return s.Ended && !s.Cut }

// TestAWholeResponseIsComplete checks that a response that was seen to its end is reported so where its request was not seen, whichever request waits for it.
func TestAWholeResponseIsComplete(t *testing.T) {
	for _, client := range []bool{false, true} {
		l := listen()
		l.play(t, script{reads(get), writes(ok), readsMore(50), writes("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc")}, client)
		l.Close()
		require.Len(t, l.reported, 2, "client %t", client)
		require.Equal(t, 404, l.reported[1].Status)
		require.Equal(t, l7.Complete, l.reported[1].Outcome)
		require.NotEqual(t, "aborted", l.reported[1].ErrorType)
		require.True(t, l.reported[1].Response.Ended)
	}
}
