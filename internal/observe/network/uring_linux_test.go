// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestConnectionsByRing checks that both ends of connections that are opened, accepted, used and closed only by io_uring are reported, with
// their roles, handshakes and bytes, and that a failed connect is.
func TestConnectionsByRing(t *testing.T) {
	if err := nettest.RingRefused(); err != nil {
		t.Skipf("io_uring is not to be had here: %v", err)
	}
	const connections, bytes = 7, 100_000
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far := nettest.Join(t, here, there)
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		for _, by := range []struct {
			kind string
			to   netip.Addr
		}{{"tcp4", far.IPv4}, {"tcp6", far.IPv6}} {
			l := server.Listen(by.kind, netip.AddrPortFrom(by.to, 0))
			clients := []string{"ebpf.role=client", "network.peer.address=" + by.to.String(), "network.peer.port=" + strconv.Itoa(int(l.Local.Port()))}
			var from, to []*nettest.Socket
			for range connections {
				dialled := client.DialByRing(by.kind, l.Local)
				accepted := l.AcceptByRing()
				nettest.Carry(dialled, nettest.Transfer{How: "io_uring", Bytes: bytes}, accepted, nettest.Transfer{How: "io_uring_msg", Bytes: bytes})
				nettest.Carry(accepted, nettest.Transfer{How: "io_uring_msg", Bytes: bytes}, dialled, nettest.Transfer{How: "io_uring", Bytes: bytes})
				from, to = append(from, dialled), append(to, accepted)
			}
			w.report()
			network := "network.type=ipv" + by.kind[3:]
			require.EqualValues(t, connections, w.open(client, "established", clients...))
			require.EqualValues(t, connections, w.open(server, "established", "ebpf.role=server", network))
			require.EqualValues(t, connections, w.histogram(client, "ebpf.network.operation.duration", append(clients, "ebpf.operation=connect")...).Count)
			require.Empty(t, w.points(client, "ebpf.network.io", "ebpf.role=server", network))
			require.Empty(t, w.points(server, "ebpf.network.io", "ebpf.role=client", network))
			for _, direction := range []string{"network.io.direction=receive", "network.io.direction=transmit"} {
				w.equal(connections*bytes, w.sum(client, "ebpf.network.io", append(clients, direction)...), bytes, direction)
				w.equal(connections*bytes, w.sum(server, "ebpf.network.io", "ebpf.role=server", network, direction), bytes, direction)
			}
			for i := range from {
				from[i].CloseByRing()
				to[i].CloseByRing()
			}
			w.report()
			require.Zero(t, w.open(client, "established", clients...))
			require.Zero(t, w.open(server, "established", "ebpf.role=server", network))

			closed := l.Local
			l.CloseByRing()
			require.Equal(t, "ECONNREFUSED", client.TryDialByRing(by.kind, closed).Errno)
			w.report()
			require.EqualValues(t, 1, w.sum(client, "ebpf.tcp.connection.failures", append(clients, "error.type=ECONNREFUSED")...))
		}
	})
}

// TestPlainAccept checks that accept() counts as accept4() does.
func TestPlainAccept(t *testing.T) {
	const connections = 5
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		for range connections {
			from := client.Dial("tcp4", l.Local)
			exchange(from, l.AcceptPlain(), 100)
		}
		w.report()
		require.EqualValues(t, connections, w.histogram(server, "ebpf.network.operation.duration", "ebpf.operation=accept", "ebpf.role=server").Count)
		require.EqualValues(t, connections*100, w.sum(server, "ebpf.network.io", "network.io.direction=receive", "ebpf.role=server"))
		require.Zero(t, w.sum(server, "ebpf.network.io", "ebpf.role=client"))
	})
}
