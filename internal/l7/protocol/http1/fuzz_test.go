// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const quiet = 1000

// turn parts what is read from what is written in the fuzzer's input.
const turn = "\xff"

// FuzzConnection lets a server read and write anything, cut, repeated and lost at random, between exchanges that are well-formed. They
// are reported exactly, memory stays bounded, contents are given back, and the first of them after a loss is reported with its own response or with none.
func FuzzConnection(f *testing.F) {
	f.Add([]byte(get+turn+ok), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		limits := l7.Limits{Line: 256, Values: 512, Head: 4096, Pipelined: 4, Quiet: quiet, Undecided: 1 << 30, Left: 1 << 30}
		l := listenWithin(limits)
		const room = 1 << 10
		contents := &l7.Contents{Wanted: wantAll, Body: 64, Head: 64, Calls: 2, Left: room}
		l.sink.Contents = contents
		m := &mangler{rnd: rnd, l: l, now: 1000}
		m.exchange("/first", "201", false)
		require.Equal(t, []any{"GET", "/first", 201, int64(0), int64(3), l7.Complete}, brief(l.reported[0]))

		for i, part := range bytes.Split(data, []byte(turn)) {
			m.mangle(l7.Direction(i%2), part)
			require.Less(t, l.Held(), 32<<10)
		}
		left := leftHTTP(l.reported)
		l.reported = nil
		m.exchange("/second", "202", true)
		m.now += 2 * quiet
		m.exchange("/third", "203", false)
		m.exchange("/fourth", "204", false)
		m.giveUp("/fifth", seed%2 == 0)
		require.Equal(t, room, contents.Left, "what was kept of contents was given back")
		if left {
			return // who of the two is the server is found out anew then, and may have been found out wrongly
		}
		requireOwnResponses(t, l.reported)
		last := l.reported[max(len(l.reported)-3, 0):]
		require.Len(t, last, 3)
		require.Equal(t, []any{"GET", "/third", 203, int64(0), int64(3), l7.Complete}, brief(last[0]))
		require.Equal(t, []any{"GET", "/fourth", 204, int64(0), int64(0), l7.Complete}, brief(last[1]))
		require.Equal(t, []any{"GET", "/fifth", 0, int64(0), int64(0), l7.Unanswered}, brief(last[2]))
		require.Equal(t, l7.ErrorClientClosed, last[2].ErrorType)
		require.Equal(t, m.ended, l.ended[len(l.ended)-1])
		requireOnce(t, l.reported, "/third", "/fourth", "/fifth")
	})
}

// leftHTTP reports whether the connection changed its protocol.
func leftHTTP(all []reported) bool {
	for _, x := range all {
		if x.Status == 101 || x.Method == "CONNECT" || x.Method == "" {
			return true
		}
	}
	return false
}

func requireOwnResponses(t *testing.T, all []reported) {
	own := map[string]int{"/second": 202, "/third": 203, "/fourth": 204}
	for _, x := range all {
		if status, ours := own[x.Target]; ours && x.Status != 0 {
			require.Equal(t, status, x.Status, "%s has another's response", x.Target)
		}
	}
}

// requireOnce holds that each request was handed over once, however it ended.
func requireOnce(t *testing.T, all []reported, targets ...string) {
	times := map[string]int{}
	for _, x := range all {
		times[x.Target]++
	}
	for _, target := range targets {
		require.Equal(t, 1, times[target], "%s in %+v", target, all)
	}
}

// mangler feeds a connection.
type mangler struct {
	rnd *rand.Rand
	l   *listener
	now int64
	// ended is when the client ended the connection.
	ended int64
	// lost is when bytes of a direction were lost, or 0.
	lost [2]int64
}

// exchange feeds a well-formed one in random pieces, after a loss if there was one.
func (m *mangler) exchange(target, status string, loss bool) {
	if loss {
		m.lost = [2]int64{m.now, m.now}
		m.now += 10
	}
	body := "Content-Length: 3\r\n\r\nabc"
	if status == "204" {
		body = "\r\n"
	}
	m.pieces(l7.Read, []byte("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n"))
	m.pieces(l7.Write, []byte("HTTP/1.1 "+status+" X\r\n"+body))
}

// giveUp feeds a request whose client ends the connection, and a late response if that counts for nothing. Then it closes it.
func (m *mangler) giveUp(target string, late bool) {
	m.pieces(l7.Read, []byte("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n"))
	m.now++
	m.ended = m.now
	m.l.Ending(l7.ClosedRemotely, m.ended)
	if late {
		m.l.GiveUp(m.ended + 1)
		m.pieces(l7.Write, []byte("HTTP/1.1 205 X\r\nContent-Length: 0\r\n\r\n"))
	}
	m.l.Closed(m.now + 10)
	m.l.Close()
}

// pieces feeds all of the data.
func (m *mangler) pieces(d l7.Direction, data []byte) {
	for len(data) > 0 {
		n := 1 + m.rnd.IntN(len(data))
		m.feed(d, data[:n], 0)
		data = data[n:]
	}
}

// mangle feeds the data as bad days have it.
func (m *mangler) mangle(d l7.Direction, data []byte) {
	for len(data) > 0 {
		n := 1 + m.rnd.IntN(len(data))
		switch m.rnd.IntN(8) {
		case 0: // lost
			m.now += 10
			m.lost[d] = m.now
		case 1: // repeated
			m.feed(d, data[:n], 0)
			m.feed(d, data[:n], 0)
		case 2: // cut
			m.feed(d, data[:m.rnd.IntN(n)], int64(n))
		default:
			m.feed(d, data[:n], 0)
		}
		data = data[n:]
	}
	if m.rnd.IntN(4) == 0 {
		m.l.Expire(m.now - 50)
	}
}

func (m *mangler) feed(d l7.Direction, data []byte, more int64) {
	m.now += 10
	p := l7.Piece{Direction: d, Began: m.now - 5, Ended: m.now, Length: int64(len(data)) + more, Data: bytes.Clone(data)}
	if m.lost[d] > 0 {
		p.Lost, p.LostAt = l7.LostUnknown, m.lost[d]
		m.lost[d] = 0
	}
	m.l.Feed(p)
	for i := range p.Data {
		p.Data[i] = '#'
	}
}
