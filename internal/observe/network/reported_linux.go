// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"sync/atomic"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// reportedPeers are the peers of connections as their metrics last reported them, by the slot of their series. Reports write them, and the
// code that counts requests reads them, so that both have the same peers.
type reportedPeers []atomic.Pointer[reportedPeer]

type reportedPeer struct {
	generation uint32
	peer       requests.Peer
}

// of returns the peer of a series, nil if none was reported.
func (n reportedPeers) of(id, generation uint32) *requests.Peer {
	if int(id) >= len(n) {
		return nil
	}
	known := n[id].Load()
	if known == nil || known.generation != generation {
		return nil
	}
	return &known.peer
}

// nameForRequests notes the peers of all series that have one.
func (t *table) nameForRequests() {
	for id, s := range t.live {
		if s.flow == nil || id == hostSeries || s.leaving {
			continue
		}
		peer, generation := s.flow.other(), t.slots.items[id].Generation
		if known := t.reported.of(id, generation); known == nil || *known != peer {
			t.reported[id].Store(&reportedPeer{generation, peer})
		}
	}
}
