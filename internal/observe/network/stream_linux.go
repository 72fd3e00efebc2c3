// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"math"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// streamID tells a socket from all others, also from later ones at its address.
type streamID struct {
	sock   uint64
	stream uint32
}

// stream is a connection that is followed.
type stream struct {
	conn   *l7.Conn
	series uint32
	// generation is that of the series which whom was read from.
	generation uint32
	whom       requests.Whom
	last       uint64 // CLOCK_MONOTONIC, ns
	// held is its memory as it was measured last, fed how many pieces it had.
	held uint64
	fed  uint64
	// datagrams says that it is no stream in truth, unanswered how many more of them
	// asked than answered.
	datagrams  bool
	unanswered int
	// next is where TCP is before the next piece of each direction, once that is known.
	next  [2]uint32
	known [2]bool
}

// streamBytes is what a connection takes here beside what its parser holds: itself, and its entry
// with the room that a map keeps free.
const streamBytes = uint64(unsafe.Sizeof(stream{})) + 2*uint64(unsafe.Sizeof(streamID{})+unsafe.Sizeof(&stream{}))

// measureEvery is how many pieces of a connection go by until its memory is measured again.
const measureEvery = 8

// weight is how much is gained by giving the connection up: its memory, and for how long, in ms, nobody has used it at a time of
// CLOCK_MONOTONIC, in ns.
func (s *stream) weight(now uint64) uint64 {
	const shortest = 1000 // one that is in use all the time must not be for nothing
	return s.held * ((now-min(s.last, now))/uint64(time.Millisecond) + shortest)
}

// mayBeQuiet is how long a connection may be quiet until it is forgotten. Where its series is another's by now it was closed. One
// whose messages refer to what was said at any time before is kept as long as there is room.
func (c *capture) mayBeQuiet(s *stream) time.Duration {
	switch {
	case s.datagrams:
		return c.quiet
	case s.conn.Idle(), c.place(&piece{Series: s.series, Generation: s.generation}) == nil:
		return quietFor
	case s.conn.Recalls():
		return math.MaxInt64
	}
	return waitsFor
}

// settled tells whether as much is answered as was asked by datagrams, whichever side asks: nothing is waited for then, if they were the
// answers, and most sockets are used for one question.
func (s *stream) settled(data []byte) bool {
	const flags, response = 2, 0x80 // of the header of a message of DNS
	if len(data) > flags && data[flags]&response != 0 {
		s.unanswered--
	} else {
		s.unanswered++
	}
	return s.unanswered <= 0
}

// lost says how many bytes are missing before a piece, by the sequence numbers of TCP, else by what the programs could not write; and
// when the last of them was transferred, 0 where nobody knows.
func (s *stream) lost(p *piece) (bytes, at int64) {
	unknown := p.Lost&uint8(bindings.NetworkNetworkPieceLossNETWORK_PIECE_UNKNOWN) != 0
	if p.Position == 0 {
		if p.Lost != 0 {
			return l7.LostUnknown, 0
		}
		return 0, 0
	}
	missing, known := int32(p.Position-p.Length-s.next[p.Kind]), s.known[p.Kind]
	s.next[p.Kind], s.known[p.Kind] = p.Position, true
	switch {
	case !known || missing == 0 && !unknown:
		return 0, 0
	case missing >= int32(bindings.NetworkNetworkPieceGapNETWORK_PIECE_GAP), missing < 0, unknown:
		if p.Protocol&uint8(bindings.NetworkNetworkProtocolNETWORK_TLS) != 0 {
			return l7.LostUnknown, int64(p.Began) // calls of a library follow one another
		}
		return l7.LostUnknown, 0 // two threads at once, or a call that was not seen
	}
	return int64(missing), 0
}
