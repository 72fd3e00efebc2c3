// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// TestAnsweredSocketsAreForgotten holds that a socket for datagrams is forgotten once all that it has asked is answered, not
// before, and that each lookup is counted.
func TestAnsweredSocketsAreForgotten(t *testing.T) {
	lookup := func(id uint16, response bool) []byte {
		m := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: id, Response: response},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		}
		packed, err := m.Pack()
		require.NoError(t, err)
		return packed
	}
	series := &table{places: shared[place]{items: make([]place, 1)}}
	series.places.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_UDP)
	series.places.items[0].Key.Pid = 1
	c := newCapture(Config{}, &ring{}, series)
	at := uint64(0)
	tell := func(kind bindings.NetworkNetworkPieceKind, id uint16) {
		at += 1000
		data := lookup(id, kind == bindings.NetworkNetworkPieceKindNETWORK_PIECE_READ)
		c.record(&piece{Sock: 7, Stream: 1, Kind: uint8(kind), Began: at, Ended: at, Length: uint32(len(data))}, data)
	}
	const read, write = bindings.NetworkNetworkPieceKindNETWORK_PIECE_READ, bindings.NetworkNetworkPieceKindNETWORK_PIECE_WRITE
	for range 3 {
		tell(write, 1)
		tell(write, 2)
		tell(read, 2)
		require.Len(t, c.streams, 1, "one is waited for")
		tell(read, 1)
		require.Empty(t, c.streams)
	}
	counted, _ := c.totals.Exchanges()
	require.EqualValues(t, 6, counted)
}

// TestConnectionsAreBoundedByTheirMemory holds that however many connections there are, and whatever they are made to take, they take no
// more than they may, that those are given up which are quiet or take much, that this is counted, and that the others go on to be told.
func TestConnectionsAreBoundedByTheirMemory(t *testing.T) {
	const (
		get  = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
		ok   = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		many = 4 * minConnected / 2000
	)
	begin := func() (*capture, func(sock uint64, kind l7.Direction, text string)) {
		series := &table{places: shared[place]{items: make([]place, 1)}}
		series.places.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_TCP)
		series.places.items[0].Key.Pid = 1
		c := newCapture(Config{}, &ring{}, series)
		at := uint64(0)
		return c, func(sock uint64, kind l7.Direction, text string) {
			at += uint64(time.Millisecond)
			c.record(&piece{Sock: sock, Kind: uint8(kind), Began: at, Ended: at, Length: uint32(len(text))}, []byte(text))
			require.LessOrEqual(t, c.connected, uint64(minConnected))
		}
	}
	sum := func(c *capture) (held uint64) {
		for _, s := range c.streams {
			held += streamBytes + uint64(s.conn.Held())
		}
		return held
	}
	t.Run("many", func(t *testing.T) {
		c, tell := begin()
		for sock := range uint64(many) {
			tell(sock+2, l7.Read, get)
			tell(sock+2, l7.Write, ok)
			tell(1, l7.Read, get) // is in use all the time
			tell(1, l7.Write, ok)
		}
		counted, _ := c.totals.Exchanges()
		require.EqualValues(t, 2*many, counted, "each had its room when it was used")
		require.EqualValues(t, many+1, c.crowded+uint64(len(c.streams)), "each is there or was counted")
		require.Contains(t, c.streams, streamID{sock: 1})
		require.Contains(t, c.streams, streamID{sock: many + 1})
		require.NotContains(t, c.streams, streamID{sock: 2}, "the quiet ones go first")
		c.sweep()
		require.Equal(t, sum(c), c.connected)
		for id, s := range c.streams {
			c.forget(id, s)
		}
		require.Zero(t, c.connected)
	})
	t.Run("much", func(t *testing.T) {
		const usual, greedy = 100, 50
		c, tell := begin()
		for sock := range uint64(usual) {
			tell(sock, l7.Read, get)
		}
		head := "GET /" + strings.Repeat("x", 4000) + " HTTP/1.1\r\nHost: " + strings.Repeat("h", 3000) + "\r\n\r\n"
		for sock := range uint64(greedy) {
			for range 64 {
				tell(usual+sock, l7.Read, head)
			}
		}
		require.Positive(t, c.crowded)
		for sock := range uint64(usual) {
			require.Contains(t, c.streams, streamID{sock: sock})
			tell(sock, l7.Write, ok)
		}
		counted, _ := c.totals.Exchanges()
		require.EqualValues(t, usual, counted, "what was given up is not told as if it had ended")
	})
}

// TestRefusalsAreRepeated holds that a connection of which nothing is made is refused again when another one has taken its place among those
// that are.
func TestRefusalsAreRepeated(t *testing.T) {
	series := &table{places: shared[place]{items: make([]place, 1)}}
	series.places.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_TCP)
	c := newCapture(Config{}, &ring{}, series)
	c.refused.items = make([]uint64, 1)
	at := uint64(0)
	tell := func(stream uint32) {
		at += uint64(time.Millisecond)
		data := []byte("\x81\x05hello, this is no HTTP")
		c.record(&piece{Sock: uint64(stream), Stream: stream, Kind: uint8(l7.Read), Began: at, Ended: at, Length: uint32(len(data))}, data)
	}
	for _, stream := range []uint32{7, 8} {
		for range 1000 {
			if tell(stream); c.refused.items[0] == uint64(stream) {
				break
			}
		}
		require.EqualValues(t, stream, c.refused.items[0])
	}
	tell(7)
	require.EqualValues(t, 7, c.refused.items[0])
}
