// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// TestOtherEnds checks the reported peer after answers about its connections.
func TestOtherEnds(t *testing.T) {
	own := peer{role: Client, address: netip.MustParseAddr("192.0.2.80"), port: 80}
	behind := peer{role: Client, address: netip.MustParseAddr("10.0.0.1"), port: 8080}
	other := peer{role: Client, address: netip.MustParseAddr("10.0.0.2"), port: 8080}
	at := func(where peer, pid uint32, service string) answer {
		if pid == 0 {
			return answer{peer: where}
		}
		where.pid, where.service = pid, service
		return answer{peer: where, process: &observe.SubjectKey{PID: pid}}
	}
	listening := at(own, 1, "shop")
	listening.listens = true
	named := func(where peer, pid uint32, service string) peer {
		where.pid, where.service = pid, service
		return where
	}
	const ended = 9 // the process of this number has exited
	for _, c := range []struct {
		name         string
		first, later []answer
		now, next    peer // reported after later, and in the report after that
	}{
		{"unknown", []answer{at(own, 0, "")}, nil, own, own},
		{"one", []answer{at(own, 1, "shop"), at(own, 1, "shop")}, []answer{at(own, 1, "shop")}, named(own, 1, "shop"), named(own, 1, "shop")},
		{"begins later", []answer{at(own, 0, "")}, []answer{at(own, 1, "shop")}, own, named(own, 1, "shop")},
		{"comes into scope", []answer{at(own, 1, "")}, []answer{at(own, 1, "shop")}, named(own, 1, "shop"), named(own, 1, "shop")},
		{"successor", []answer{at(own, ended, "shop")}, []answer{at(own, 1, "shop")}, named(own, 0, "shop"), named(own, 1, "shop")},
		{"workers", []answer{at(own, 1, "shop"), at(own, 2, "shop")}, []answer{at(own, 1, "shop")}, named(own, 0, "shop"), named(own, 0, "shop")},
		{"others", []answer{at(own, 1, "shop")}, []answer{at(own, 2, "bank")}, own, own},
		{"one of them unknown", []answer{at(own, 1, "shop")}, []answer{at(own, 0, "")}, named(own, 1, "shop"), named(own, 1, "shop")},
		{"accepted by another", []answer{listening}, []answer{at(own, 2, "shop")}, named(own, 0, "shop"), named(own, 2, "shop")},
		{"not accepted yet", []answer{at(own, 2, "shop")}, []answer{listening}, named(own, 2, "shop"), named(own, 2, "shop")},
		{"translated", []answer{at(behind, 0, "")}, []answer{at(own, 0, "")}, behind, behind},
		{"translated, found later", []answer{at(behind, 0, "")}, []answer{at(behind, 1, "shop")}, own, named(behind, 1, "shop")},
		{"balanced", []answer{at(behind, 0, "")}, []answer{at(other, 0, "")}, own, own},
		{"balanced at once", []answer{at(behind, 1, "shop"), at(other, 2, "shop")}, nil, named(own, 0, "shop"), named(own, 0, "shop")},
		{"balanced, and back", []answer{at(behind, 1, "shop"), at(other, 2, "shop")}, []answer{at(behind, 1, "shop")}, named(own, 0, "shop"), named(own, 0, "shop")},
		{"moved to another address", []answer{at(behind, ended, "shop")}, []answer{at(other, 2, "shop")}, named(own, 0, "shop"), named(other, 2, "shop")},
	} {
		runs := func(who observe.SubjectKey) bool { return who.PID != ended }
		var e otherEnd
		e.begin(&key{})
		e.own, e.said.peer = own, own
		for _, a := range c.first {
			e.update(&a, runs)
		}
		e.changed = false
		for _, a := range c.later {
			e.update(&a, runs)
		}
		require.Equal(t, c.now, e.peerToReport(), c.name)
		e.changed = false
		require.Equal(t, c.next, e.peerToReport(), c.name)
	}
}
