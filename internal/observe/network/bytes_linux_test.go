// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// amount is no multiple of a chunk.
const amount = 1<<20 + 12345

// TestBytesOfConnections checks that all bytes of a connection are reported for both ends, as these have counted them, whichever calls moved
// them.
func TestBytesOfConnections(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		near, far := nettest.Join(t, here, there)
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		reading := nettest.Reading()
		for _, c := range []struct {
			kind, family string
			from, to     netip.Addr
		}{{"tcp4", "ipv4", near.IPv4, far.IPv4}, {"tcp6", "ipv6", near.IPv6, far.IPv6}} {
			l := server.Listen(c.kind, netip.AddrPortFrom(c.to, 0))
			from := client.Dial(c.kind, l.Local)
			to := l.Accept()
			clients := []string{"ebpf.role=client", "network.transport=tcp", "network.type=" + c.family,
				"network.peer.address=" + c.to.String(), "network.peer.port=" + strconv.Itoa(int(l.Local.Port()))}
			servers := []string{"ebpf.role=server", "network.transport=tcp", "network.type=" + c.family,
				"network.peer.address=" + c.from.String()}
			total := int64(0)
			for how, opposite := range reading {
				nettest.Carry(from, nettest.Transfer{How: how, Bytes: amount}, to, nettest.Transfer{How: opposite, Bytes: amount})
				nettest.Carry(to, nettest.Transfer{How: how, Bytes: amount}, from, nettest.Transfer{How: opposite, Bytes: amount})
				total += amount
				w.report()
				for program, peer := range map[*nettest.Program][]string{client: clients, server: servers} {
					w.equal(total, w.sum(program, "ebpf.network.io", append(peer, "network.io.direction=transmit")...), amount, how)
					w.equal(total, w.sum(program, "ebpf.network.io", append(peer, "network.io.direction=receive")...), amount, opposite)
				}
			}
		}
	})
}
