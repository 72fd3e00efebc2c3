// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const phantom = "GET /fake HTTP/1.1\r\nHost: h\r\n\r\n"

// uploads are exchanges of a client that does not pipeline. The bodies contain requests. Some responses begin before the body was read.
type uploads struct {
	rnd  *rand.Rand
	now  int64
	sent int
	// percent of the pieces are lost.
	percent int
	lost    [2]int64
	lostAt  [2]int64
	feed    func(l7.Piece)
	// unread are bytes that the client sent and the server did not read.
	unread []byte
	begins map[int]bool // offsets in unread at which the client's writes began
}

// captured is how many bytes of a transfer leave the kernel: a window of one that begins a message, all of a short one, else a few.
func captured(data []byte) int {
	const window, short, few = 4096, 512, 32
	switch {
	case bytes.HasPrefix(data, []byte("GET ")) || bytes.HasPrefix(data, []byte("POST ")) || bytes.HasPrefix(data, []byte("HTTP/")):
		return min(len(data), window)
	case len(data) <= short:
		return len(data)
	}
	return few
}

func (u *uploads) piece(d l7.Direction, data []byte) {
	u.now += 10
	if u.rnd.IntN(100) < u.percent {
		u.lost[d] += int64(len(data))
		u.lostAt[d] = u.now
		return
	}
	p := l7.Piece{Direction: d, Began: u.now - 5, Ended: u.now, Length: int64(len(data)), Lost: u.lost[d], LostAt: u.lostAt[d], Data: bytes.Clone(data[:captured(data)])}
	if p.Lost > 0 && u.rnd.IntN(2) == 0 {
		p.Lost = l7.LostUnknown
	}
	u.lost[d] = 0
	u.feed(p)
}

// read has the server read some of what was sent, often up to where a write began.
func (u *uploads) read(most int) {
	n := 1 + u.rnd.IntN(min(most, len(u.unread)))
	for at := n; at > 0 && u.rnd.IntN(3) > 0; at-- {
		if u.begins[at] {
			n = at
			break
		}
	}
	u.piece(l7.Read, u.unread[:n])
	u.unread = u.unread[n:]
	begins := map[int]bool{}
	for at := range u.begins {
		begins[at-n] = true
	}
	u.begins = begins
}

func (u *uploads) write(text string) {
	u.begins[len(u.unread)] = true
	u.unread = append(u.unread, text...)
}

// exchange is an upload, or a request without a body.
func (u *uploads) exchange(upload bool) {
	target := fmt.Sprintf("/real/%d", u.sent)
	u.sent++
	respond := func(status int) {
		u.piece(l7.Write, fmt.Appendf(nil, "HTTP/1.1 %d X\r\nX-Of: %s\r\nContent-Length: 3\r\n\r\nabc", status, target))
	}
	if !upload {
		u.write("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
		u.drain()
		respond(200)
		return
	}
	blocks := 1 + u.rnd.IntN(6)
	block := phantom + strings.Repeat("x", u.rnd.IntN(3000)*u.rnd.IntN(2))
	u.write(fmt.Sprintf("POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n", target, blocks*len(block)))
	early := u.rnd.IntN(2) == 0
	if early {
		u.drain()
		respond(413)
	}
	for range blocks {
		u.write(block)
		if u.rnd.IntN(2) == 0 {
			u.read(5000)
		}
	}
	if !early {
		u.drain()
		respond(200)
	}
}

func (u *uploads) drain() {
	for len(u.unread) > 0 {
		u.read(5000)
	}
}

// TestNoRequestIsReportedThatWasNotSent has bodies contain requests at the beginning of transfers, the records of which are cut as in the
// kernel or lost: what is reported was sent, and no more than was sent. Behind a quiet second all is known again.
func TestNoRequestIsReportedThatWasNotSent(t *testing.T) {
	named, sent := 0, 0
	for _, percent := range []int{0, 2, 20} {
		for seed := range uint64(400) {
			l := listen()
			u := &uploads{rnd: rand.New(rand.NewPCG(seed, 3)), percent: percent, feed: l.Feed, begins: map[int]bool{}, now: 1000}
			u.percent = 0
			u.exchange(false)
			u.percent = percent
			for range 8 {
				u.exchange(u.rnd.IntN(2) == 0)
			}
			u.drain()
			u.now += 2e9
			u.percent = 0
			u.exchange(false)
			u.exchange(false)
			l.Close()
			for _, x := range l.reported {
				require.NotContains(t, x.Target, "/fake", "%d %%, seed %d: %+v", percent, seed, l.reported)
				if strings.HasPrefix(x.Target, "/real/") {
					named++
				}
			}
			require.LessOrEqual(t, len(l.reported), u.sent, "%d %%, seed %d", percent, seed)
			requireOnceOf(t, l.reported, percent, seed, u.sent-1)
			sent += u.sent
		}
	}
	t.Logf("%d of %d requests reported by name", named, sent)
}

func requireOnceOf(t *testing.T, all []reported, percent int, seed uint64, i int) {
	times := 0
	for _, x := range all {
		if x.Target == fmt.Sprintf("/real/%d", i) {
			times++
		}
	}
	require.Equal(t, 1, times, "%d %%, seed %d, request %d", percent, seed, i)
}

// TestLostResponsesConfirmNoRequest has a part of a body look like a request behind missing bytes, and then loses bytes of responses: what was
// not confirmed until then is not reported, and the next request is.
func TestLostResponsesConfirmNoRequest(t *testing.T) {
	l := listen()
	now := int64(1000)
	piece := func(d l7.Direction, lost int64, text string) {
		now += 10
		l.Feed(l7.Piece{Direction: d, Began: now - 5, Ended: now, Length: int64(len(text)), Lost: lost, LostAt: now - 5, Data: []byte(text)})
	}
	const response = "HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"
	piece(l7.Read, 0, "GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
	piece(l7.Write, 0, response)
	piece(l7.Read, 500, "the body of a request that was not seen, which is answered before all of it was read")
	piece(l7.Write, 0, "HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
	piece(l7.Read, 0, phantom)
	piece(l7.Write, 400, "the body of a response that was not seen")
	now += 2e9
	piece(l7.Read, 0, "GET /last HTTP/1.1\r\nHost: h\r\n\r\n")
	piece(l7.Write, 0, response)
	l.Close()
	var targets []string
	for _, x := range l.reported {
		targets = append(targets, x.Target)
	}
	require.NotContains(t, targets, "/fake")
	require.Contains(t, targets, "/first")
	require.Contains(t, targets, "/last")
}
