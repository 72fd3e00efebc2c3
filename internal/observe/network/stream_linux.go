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

// streamID identifies a socket, also among later ones at its address.
type streamID struct {
	sock   uint64
	stream uint32
}

// stream is a connection that is parsed.
type stream struct {
	conn   *l7.Conn
	series uint32
	// generation is that of the series that connection was read from.
	generation uint32
	connection requests.Connection
	last       uint64 // CLOCK_MONOTONIC, ns
	// held is its memory at the last measurement, fed the number of segments that were parsed.
	held uint64
	fed  uint64
	// datagrams: it is a datagram socket. unanswered is by how many its queries exceed its responses.
	datagrams  bool
	unanswered int
	// late is not nil if its TLS began before its library was attached to.
	late *lateConnection
	// next is the TCP sequence number after the last segment of each direction, if known.
	next  [2]uint32
	known [2]bool
}

// streamBytes is the memory of a connection without its parser: the struct, and its entry in the map with the capacity that a map keeps free.
const streamBytes = uint64(unsafe.Sizeof(stream{})) + 2*uint64(unsafe.Sizeof(streamID{})+unsafe.Sizeof(&stream{}))

// measureEvery is the number of segments of a connection between two measurements of its memory.
const measureEvery = 8

// weight returns how much is gained by giving the connection up: its memory, times how long, in ms, it has been unused at a time of
// CLOCK_MONOTONIC, in ns.
func (s *stream) weight(now uint64) uint64 {
	const shortest = 1000 // one that is in use all the time must not have weight 0
	return s.held * ((now-min(s.last, now))/uint64(time.Millisecond) + shortest)
}

// mayBeQuiet returns how long a connection may be quiet until it is forgotten. If its series belongs to another connection now, it was
// closed. One whose messages refer to earlier ones, however old, is kept as long as there is memory.
func (c *capture) mayBeQuiet(s *stream) time.Duration {
	switch {
	case s.datagrams:
		return c.quiet
	case s.conn.Idle(), c.slot(&segment{Series: s.series, Generation: s.generation}) == nil:
		return quietFor
	case s.conn.Recalls():
		return math.MaxInt64
	}
	return waitsFor
}

// settled reports whether a datagram socket has as many responses as queries, whichever side queries: nothing is outstanding then, if the
// responses belong to the queries; and most sockets are used for one query.
func (s *stream) settled(data []byte) bool {
	const flags, response = 2, 0x80 // of the header of a DNS message
	if len(data) > flags && data[flags]&response != 0 {
		s.unanswered--
	} else {
		s.unanswered++
	}
	return s.unanswered <= 0
}

// lost returns how many bytes are missing before a segment, by the sequence numbers of TCP, else by what the programs could not write; and
// when the last of them was transferred, 0 if unknown.
func (s *stream) lost(p *segment) (bytes, at int64) {
	unknown := p.Lost&uint8(bindings.NetworkNetworkSegmentLossNETWORK_SEGMENT_UNKNOWN) != 0
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
	case missing >= int32(bindings.NetworkNetworkSegmentGapNETWORK_SEGMENT_GAP), missing < 0, unknown:
		if p.Protocol&uint8(bindings.NetworkNetworkProtocolNETWORK_TLS) != 0 {
			return l7.LostUnknown, int64(p.Began) // calls of a library are sequential
		}
		return l7.LostUnknown, 0 // two threads at once, or a call that was not captured
	}
	return int64(missing), 0
}
