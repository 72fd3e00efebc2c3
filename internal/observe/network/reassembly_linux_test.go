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
)

// chunkBytes is how much the programs take of a transfer at least.
const chunkBytes = 32

// first is the path of the request with which a connection begins.
const first = 999

// mishaps are what may become of pieces on their way, each as often as one in so many; 0: never.
type mishaps struct {
	lost, repeated, late, cut int
}

// FuzzPieces has requests of one connection told in pieces that come late, twice, cut or not at all: no response is ever told with another
// one's request, what nothing has become of is told exactly, and afterwards requests are told again.
func FuzzPieces(f *testing.F) {
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
		told := r.told
		r.told = map[int]int{}
		for path, status := range told {
			require.Equal(t, statusOfPath(path), status, "a response of another request")
		}
		if !harmed {
			require.Len(t, told, int(exchanges)+1)
		}
		require.Less(t, r.capture.connected, uint64(1<<20))
		require.Empty(t, r.capture.waiting.pieces)
		// The connection is used again when all is over, now and then.
		r.mishaps = mishaps{}
		const after, more = 1000, 8
		for i := range more {
			r.now += 2 * uint64(time.Second)
			r.exchange(after + i)
			r.pass()
		}
		require.Equal(t, statusOfPath(after+more-1), r.told[after+more-1], "%v", r.told)
	})
}

// statusOfPath is what a path is answered with: all have a body.
func statusOfPath(path int) int { return 210 + path%80 }

// reassembly is a server's connection whose pieces come as programs tell them.
type reassembly struct {
	mishaps
	capture *capture
	rnd     *rand.Rand
	now     uint64
	at      [2]uint32 // TCP's position by direction
	told    map[int]int
	harmed  bool // something was lost, repeated or cut
	delayed [][]byte
}

func newReassembly(t *testing.T, seed uint64, m mishaps) *reassembly {
	r := &reassembly{rnd: rand.New(rand.NewPCG(seed, 2)), now: uint64(time.Hour), at: [2]uint32{1<<32 - 100, 1000}, told: map[int]int{}}
	series := &table{places: shared[place]{items: make([]place, 1)}}
	series.places.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_TCP)
	series.places.items[0].Key.Pid = 1
	config := Config{exchanged: func(_ uint32, e *l7.Exchange) {
		var path int
		if e.HTTP.Status == 0 || !e.Request.Known {
			return
		}
		_, err := fmt.Sscanf(string(e.HTTP.Path), "/%d/", &path)
		if err == nil {
			r.told[path] = e.HTTP.Status
		}
	}}
	r.capture = newCapture(config, &ring{}, series)
	r.capture.wall = func(ns int64) time.Time { return time.Unix(0, ns) }
	r.exchange(first) // where TCP is must be known: what is lost before nobody knows of
	r.pass()
	r.mishaps = m
	return r
}

// exchange has the server read a request and answer it.
func (r *reassembly) exchange(path int) {
	r.carry(l7.Read, fmt.Sprintf("POST /%d/x HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 5\r\n\r\nhello", path))
	r.carry(l7.Write, fmt.Sprintf("HTTP/1.1 %d Fine\r\nContent-Length: 7\r\n\r\nanswers", statusOfPath(path)))
}

func (r *reassembly) chance(of int) bool { return of > 0 && r.rnd.IntN(of) == 0 }

// carry has the text transferred in pieces.
func (r *reassembly) carry(d l7.Direction, text string) {
	for len(text) > 0 {
		n := 1 + r.rnd.IntN(len(text))
		if r.at[d]+uint32(n) == 0 { // it says that no position is known
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
			r.delayed = append(r.delayed, raw) // told when later ones were, but in time
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

// record is what a program writes of a transfer of n bytes.
func (r *reassembly) record(d l7.Direction, data string, n int) []byte {
	p := piece{Sock: 1, Stream: 7, Kind: uint8(d), Began: r.now - 1000, Ended: r.now, Length: uint32(n), Position: r.at[d], Protocol: 1, Role: 2}
	return rawPiece(p, data)
}

// pass hands over what is in order by now.
func (r *reassembly) pass() {
	for _, raw := range r.delayed {
		r.capture.waiting.add(raw)
	}
	r.delayed = r.delayed[:0]
	r.capture.waiting.takeUntil(r.now, r.capture.record)
}
