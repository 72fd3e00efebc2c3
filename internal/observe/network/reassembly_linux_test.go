// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// chunkBytes is the least that the programs capture of a transfer.
const chunkBytes = 32

// first is the path of the request with which a connection begins.
const first = 999

// mishaps are what may happen to segments under way, each as often as one in so many; 0: never.
type mishaps struct {
	lost, repeated, late, cut int
}

// FuzzSegments passes the requests of one connection in segments that come late, twice, truncated or not at all. No response is ever reported
// with the request of another one, what is complete is reported exactly, and afterwards requests are reported again.
func FuzzSegments(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, uint8(0), uint8(0), uint8(3), uint8(0), uint8(20))
		f.Add(seed, uint8(8), uint8(0), uint8(3), uint8(0), uint8(20))
		f.Add(seed, uint8(8), uint8(8), uint8(3), uint8(8), uint8(20))
	}
	f.Fuzz(func(t *testing.T, seed uint64, lost, repeated, late, cut, exchanges uint8) {
		exchanges %= 32
		r := newReassembly(t, seed, mishaps{int(lost), int(repeated), int(late), int(cut)})
		for i := range int(exchanges) {
			r.exchange(i)
		}
		r.pass()
		harmed := r.harmed
		reported := r.reported
		r.reported = map[int]int{}
		for path, status := range reported {
			require.Equal(t, statusOfPath(path), status, "a response of another request")
		}
		if !harmed {
			require.Len(t, reported, int(exchanges)+1)
		}
		require.Less(t, r.capture.connected, uint64(1<<20))
		require.Empty(t, r.capture.waiting.segments)
		// The connection is used again after everything else, now and then.
		r.mishaps = mishaps{}
		const after, more = 1000, 8
		for i := range more {
			r.now += 2 * uint64(time.Second)
			r.exchange(after + i)
			r.pass()
		}
		require.Equal(t, statusOfPath(after+more-1), r.reported[after+more-1], "%v", r.reported)
	})
}

// statusOfPath returns the status of the response for a path: all responses have a body.
func statusOfPath(path int) int { return 210 + path%80 }

// reassembly is a server's connection whose segments come as programs record them.
type reassembly struct {
	mishaps
	capture  *capture
	rnd      *rand.Rand
	now      uint64
	at       [2]uint32 // TCP's position by direction
	reported map[int]int
	harmed   bool // something was lost, repeated or truncated
	delayed  [][]byte
}

func newReassembly(t *testing.T, seed uint64, m mishaps) *reassembly {
	r := &reassembly{rnd: rand.New(rand.NewPCG(seed, 2)), now: uint64(time.Hour), at: [2]uint32{1<<32 - 100, 1000}, reported: map[int]int{}}
	series := &table{slots: shared[slot]{items: make([]slot, 1)}}
	series.slots.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_TCP)
	series.slots.items[0].Key.Pid = 1
	config := Config{exchanged: func(_ uint32, e *l7.Exchange) {
		var path int
		if httpexchange.Of(e).Status == 0 || !e.Request.Known {
			return
		}
		_, err := fmt.Sscanf(string(httpexchange.Of(e).Path), "/%d/", &path)
		if err == nil {
			r.reported[path] = httpexchange.Of(e).Status
		}
	}}
	r.capture = newCapture(config, &ring{}, series)
	r.capture.wall = func(ns int64) time.Time { return time.Unix(0, ns) }
	r.exchange(first) // TCP's position must be known: what is lost before that is not detected
	r.pass()
	r.mishaps = m
	return r
}

// exchange makes the server read a request and answer it.
func (r *reassembly) exchange(path int) {
	r.carry(l7.Read, fmt.Sprintf("POST /%d/x HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 5\r\n\r\nhello", path))
	r.carry(l7.Write, fmt.Sprintf("HTTP/1.1 %d Fine\r\nContent-Length: 7\r\n\r\nanswers", statusOfPath(path)))
}

func (r *reassembly) chance(of int) bool { return of > 0 && r.rnd.IntN(of) == 0 }

// carry transfers the text in segments.
func (r *reassembly) carry(d l7.Direction, text string) {
	for len(text) > 0 {
		n := 1 + r.rnd.IntN(len(text))
		if r.at[d]+uint32(n) == 0 { // 0 stands for an unknown position
			r.harmed = r.harmed || n == 1
			n = max(n-1, 1)
		}
		r.now += uint64(time.Millisecond)
		r.at[d] += uint32(n)
		known := n
		if n > chunkBytes && r.chance(r.cut) {
			known, r.harmed = chunkBytes+r.rnd.IntN(n-chunkBytes), true
		}
		raw := r.record(d, text[:known], n)
		text = text[n:]
		switch {
		case r.chance(r.lost):
			r.harmed = true
		case r.chance(r.late):
			r.delayed = append(r.delayed, raw) // recorded after later ones, but in time
		default:
			r.capture.waiting.add(raw)
		}
		if r.chance(r.repeated) {
			r.harmed = true
			r.capture.waiting.add(raw)
		}
		if len(r.delayed) > 3 {
			r.pass()
		}
	}
}

// record returns what a program writes of a transfer of n bytes.
func (r *reassembly) record(d l7.Direction, data string, n int) []byte {
	p := segment{Sock: 1, Stream: 7, Kind: uint8(d), Began: r.now - 1000, Ended: r.now, Length: uint32(n), Position: r.at[d], Protocol: 1, Role: 2}
	return rawPiece(p, data)
}

// pass passes on what is in order by now.
func (r *reassembly) pass() {
	for _, raw := range r.delayed {
		r.capture.waiting.add(raw)
	}
	r.delayed = r.delayed[:0]
	r.capture.waiting.takeUntil(r.now, r.capture.record)
}
