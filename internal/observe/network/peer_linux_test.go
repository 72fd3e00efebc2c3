// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestPeersOnThisHost holds that both ends of a connection name each other's process, in one network namespace and
// across two.
func TestPeersOnThisHost(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far := nettest.Join(t, here, there)
		for _, c := range []struct {
			kind string
			in   *nettest.Namespace
			to   netip.Addr
		}{
			{"tcp4", here, loopback.Addr()}, {"tcp6", here, netip.IPv6Loopback()},
			{"tcp4", there, far.IPv4}, {"tcp6", there, far.IPv6}, {"tcp6", there, netip.AddrFrom16(far.IPv4.As16())},
		} {
			client, server := nettest.Start(t, here), nettest.Start(t, c.in)
			l := server.Listen(c.kind, netip.AddrPortFrom(c.to, 0))
			from := client.Dial(c.kind, l.Local)
			to := l.Accept()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amount}, to, nettest.Transfer{How: "read", Bytes: amount})
			w.report()
			address := "network.peer.address=" + c.to.Unmap().String()
			require.EqualValues(t, amount, w.sum(client, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", server.PID()),
				"ebpf.role=client", address, fmt.Sprintf("network.peer.port=%d", l.Local.Port())), c.to)
			require.EqualValues(t, amount, w.sum(server, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", client.PID()),
				"ebpf.role=server"), c.to)
			client.End()
			server.End()
		}
	})
}

// TestTranslatedPeers holds that who is behind an address that the kernel translates is told by the real address and
// port, and by its process, on both sides.
func TestTranslatedPeers(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		near, far := nettest.Join(t, here, there)
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 8080))
		virtual := netip.MustParseAddrPort("192.0.2.80:80")
		here.RouteVia(t, far)
		here.Translate(t, nettest.NAT{Protocol: unix.IPPROTO_TCP, To: virtual, Server: l.Local})
		from := client.Dial("tcp4", virtual)
		to := l.Accept()
		require.Equal(t, virtual, from.Remote)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amount}, to, nettest.Transfer{How: "read", Bytes: amount})
		w.report()
		require.EqualValues(t, amount, w.sum(client, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", server.PID()),
			"network.peer.address="+far.IPv4.String(), "network.peer.port=8080", "network.io.direction=transmit"))
		require.EqualValues(t, amount, w.sum(server, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", client.PID()),
			"network.peer.address="+near.IPv4.String(), "network.io.direction=receive"))
	})
}
