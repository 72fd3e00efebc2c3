// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
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
