// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// loser loses pieces of a conversation at random.
type loser struct {
	rnd     *rand.Rand
	percent int
	feed    func(l7.Piece)
	bytes   [2]int64 // lost since the last piece of the direction
	at      [2]int64
	lost    int
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
	l.feed(p)
}

// TestWhatIsToldAfterLossIsRight loses pieces of conversations whose responses say whose they are: no response is told with another's
// request, and what is told as whole has its true sizes and times. Where no more is lost, all is told again.
func TestWhatIsToldAfterLossIsRight(t *testing.T) {
	for _, role := range []l7.Role{l7.RoleServer, l7.RoleClient} {
		for _, pipelined := range []bool{false, true} {
			for _, largest := range []int{300, 5000} {
				for _, percent := range []int{2, 20, 50} {
					h := how{role: role, pipelined: pipelined, largest: largest, headsOnly: percent == 20}
					t.Run(fmt.Sprintf("%s, pipelined %v, up to %d, %d %%", role, pipelined, largest, percent), func(t *testing.T) {
						whole := 0
						for seed := range uint64(20) {
							whole += requireTrue(t, seed, h, percent)
						}
						require.Positive(t, whole, "nothing was told as whole")
					})
				}
			}
		}
	}
}

// requireTrue returns how many exchanges were told as whole.
func requireTrue(t *testing.T, seed uint64, h how, percent int) (whole int) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	c := generate(t, rnd, 20, h.role)
	for !c.marked {
		c = generate(t, rnd, 20, h.role)
	}
	l := listen()
	if h.pipelined { // which a connection is not known to do before it did
		l.play(t, script{reads(get + get), writes(ok + ok)}, h.role == l7.RoleClient)
		require.Len(t, l.told, 2)
		l.told = nil
	}
	lose := &loser{rnd: rnd, percent: percent, feed: l.Feed}
	c.play(rnd, h, lose.take)
	l.Close()
	truth := map[string]told{}
	for _, x := range c.want {
		truth[x.Target] = x
	}
	if n := len(l.told); lose.bytes[0]+lose.bytes[1] > 0 && n > 0 {
		l.told = l.told[:n-1] // nobody was told what was lost of the last
	}
	for _, x := range l.told {
		if !x.Request.Known || !x.Response.Known {
			continue
		}
		want, known := truth[x.Target]
		if !known {
			require.True(t, x.Request.Cut, "seed %d: %v was never sent", seed, x)
			continue
		}
		if x.ResponseFields[0] != absent {
			require.Equal(t, want.ResponseFields[0], x.ResponseFields[0], "seed %d: another's response", seed)
		}
		if isWhole(x.Request) && isWhole(x.Response) && x.Outcome == l7.Complete {
			require.Equal(t, want, x, "seed %d", seed)
			whole++
		}
	}
	return whole
}

func isWhole(s l7.Side) bool { return s.Ended && !s.Cut }
