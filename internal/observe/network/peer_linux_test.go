// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// TestPeersOnThisHost checks that both ends of a connection have each other's process as peer, in one network namespace and across two.
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

// TestTranslatedPeers checks that a peer behind a translated address is reported with the real address and port, and with its process, on
// both sides.
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

// TestTranslatedAfterAnother checks that addresses are resolved in a namespace where another process that queried the same one has exited.
func TestTranslatedAfterAnother(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far := nettest.Join(t, here, there)
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 8080))
		virtual := netip.MustParseAddrPort("192.0.2.80:80")
		here.RouteVia(t, far)
		here.Translate(t, nettest.NAT{Protocol: unix.IPPROTO_TCP, To: virtual, Server: l.Local})
		ended := make([]*nettest.Program, 5) // one of them is the first to query, most likely
		for i := range ended {
			ended[i] = nettest.Start(t, here)
			ended[i].Dial("tcp4", virtual).Write(nettest.Transfer{How: "write", Bytes: 5})
			l.Accept()
			ended[i].End()
		}
		from := client.Dial("tcp4", virtual)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, l.Accept(), nettest.Transfer{How: "read", Bytes: 100})
		w.report()
		behind := []string{fmt.Sprintf("ebpf.peer.pid=%d", server.PID()), "network.peer.address=" + far.IPv4.String(), "network.peer.port=8080"}
		require.EqualValues(t, 100, w.sum(client, "ebpf.network.io", behind...))
		for _, p := range ended {
			require.EqualValues(t, 5, w.sum(p, "ebpf.network.io", behind...))
		}
	})
}

// TestTranslatedOnLoopback checks that both processes of a connection that is redirected to another port of the loopback device are reported.
func TestTranslatedOnLoopback(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client, server := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", netip.MustParseAddrPort("127.0.0.1:8080"))
		virtual := netip.MustParseAddrPort("127.0.0.1:80")
		n.Translate(t, nettest.NAT{Protocol: unix.IPPROTO_TCP, To: virtual, Server: l.Local})
		from := client.Dial("tcp4", virtual)
		require.Equal(t, virtual, from.Remote)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, l.Accept(), nettest.Transfer{How: "read", Bytes: 100})
		w.report()
		require.EqualValues(t, 100, w.sum(client, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", server.PID()), "network.peer.port=8080"))
		require.EqualValues(t, 100, w.sum(server, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", client.PID())))
	})
}

// TestTranslatedDatagramsAndIPv6 checks that peers behind translated addresses are reported for UDP and IPv6, too, on both sides.
func TestTranslatedDatagramsAndIPv6(t *testing.T) {
	protocols := map[string]uint8{"tcp6": unix.IPPROTO_TCP, "udp4": unix.IPPROTO_UDP, "udp6": unix.IPPROTO_UDP}
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		for _, kind := range []string{"tcp6", "udp4", "udp6"} {
			here, there := nettest.New(t), nettest.New(t)
			near, far := nettest.Join(t, here, there)
			virtual, from, to := netip.MustParseAddrPort("[fd77::80]:80"), near.IPv6, far.IPv6
			if kind == "udp4" {
				virtual, from, to = netip.MustParseAddrPort("192.0.2.80:80"), near.IPv4, far.IPv4
			}
			client, server := nettest.Start(t, here), nettest.Start(t, there)
			l := server.Listen(kind, netip.AddrPortFrom(to, 8080))
			here.RouteVia(t, far)
			here.Translate(t, nettest.NAT{Protocol: protocols[kind], To: virtual, Server: l.Local})
			dialled := client.Dial(kind, virtual)
			require.Equal(t, virtual, dialled.Remote)
			read := nettest.Transfer{How: "recvfrom", Bytes: 100}
			if protocols[kind] == unix.IPPROTO_TCP {
				nettest.Carry(dialled, nettest.Transfer{How: "write", Bytes: 100}, l.Accept(), read)
			} else {
				nettest.Carry(dialled, nettest.Transfer{How: "write", Bytes: 100}, l, read)
			}
			w.report()
			behind := []string{"ebpf.role=client", "network.peer.address=" + to.String(), "network.peer.port=8080"}
			if protocols[kind] == unix.IPPROTO_TCP { // UDP servers in other namespaces are not found
				behind = append(behind, fmt.Sprintf("ebpf.peer.pid=%d", server.PID()))
			}
			require.EqualValues(t, 100, w.sum(client, "ebpf.network.io", behind...), kind)
			require.EqualValues(t, 100, w.sum(server, "ebpf.network.io", "ebpf.role=server", "network.peer.address="+from.String()), kind)
		}
	})
}

// TestServersFollowEachOther checks that a running client is reported with its current server, if that begins after it and if another process
// replaces it, and never with another one.
func TestServersFollowEachOther(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far := nettest.Join(t, here, there)
		to := netip.AddrPortFrom(far.IPv4, 8080)
		client := nettest.Start(t, here)
		connect := func(l *nettest.Socket, bytes int64) {
			from := client.Dial("tcp4", l.Local)
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: bytes}, l.Accept(), nettest.Transfer{How: "read", Bytes: bytes})
			from.Close()
		}
		sent := func(more ...string) int64 {
			return w.sum(client, "ebpf.network.io", append(more, "network.io.direction=transmit", "network.peer.port=8080")...)
		}
		of := func(server *nettest.Program) string { return fmt.Sprintf("ebpf.peer.pid=%d", server.PID()) }

		require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", to, true).Errno)
		w.report()
		require.EqualValues(t, 1, w.sum(client, "ebpf.tcp.connection.failures"))

		first := nettest.Start(t, there)
		l := first.Listen("tcp4", to)
		connect(l, 1)
		w.report()
		connect(l, 10)
		w.report()
		require.EqualValues(t, 11, sent())
		require.EqualValues(t, 10, sent(of(first)), "the process is reported from the report after it was found")

		first.End()
		second := nettest.Start(t, there)
		l = second.Listen("tcp4", to)
		connect(l, 100)
		w.report()
		require.EqualValues(t, 10, sent(of(first)))
		require.Zero(t, w.sum(client, "ebpf.network.connections", of(first), "network.connection.state=established"))
		connect(l, 1000)
		w.report()
		require.EqualValues(t, 1000, sent(of(second)))
		require.EqualValues(t, 1111, sent())
		w.reportUntil(func() bool {
			connect(l, 1)
			return sent(of(first)) == 0
		}, "it is no longer reported")
	})
}

// TestTranslatedToSeveral checks that a client of several servers behind one address is reported with that address and with none of their
// processes, whether one of them was reported before or not.
func TestTranslatedToSeveral(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		for _, reported := range []bool{false, true} {
			w := start()
			here, there := nettest.New(t), nettest.New(t)
			near, far := nettest.Join(t, here, there)
			client := nettest.Start(t, here)
			virtual := netip.MustParseAddrPort("192.0.2.80:80")
			here.RouteVia(t, far)
			servers := []*nettest.Program{nettest.Start(t, there), nettest.Start(t, there)}
			amounts := []int64{100, 1000}
			for i, server := range servers {
				l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, uint16(8080+i)))
				here.Translate(t, nettest.NAT{Protocol: unix.IPPROTO_TCP, To: virtual, Server: l.Local})
				from := client.Dial("tcp4", virtual)
				nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amounts[i]}, l.Accept(), nettest.Transfer{How: "read", Bytes: amounts[i]})
				if reported {
					w.report()
				}
			}
			w.report()
			first := w.sum(client, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", servers[0].PID()), "network.peer.address="+far.IPv4.String())
			several := w.sum(client, "ebpf.network.io", "network.peer.address=192.0.2.80", "network.peer.port=80")
			require.Equal(t, map[bool]int64{false: 0, true: 100}[reported], first)
			require.EqualValues(t, 1100, first+several)
			require.Zero(t, w.sum(client, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", servers[1].PID())))
			for i, server := range servers {
				require.EqualValues(t, amounts[i], w.sum(server, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", client.PID()),
					"network.peer.address="+near.IPv4.String()), "the servers know their client")
			}
			client.End()
		}
	})
}

// TestClientsFromBefore checks that a server is reported with each of several clients at one address whose connections were open before the
// start, though it is discovered before them; and with none of them if they cannot be distinguished.
func TestClientsFromBefore(t *testing.T) {
	guest.TakesLong(t)
	eachWayAnew(t, func(t *testing.T, start func() *watching) {
		for _, forgotten := range []bool{false, true} {
			n := nettest.New(t)
			server := nettest.Start(t, n) // the lowest number is discovered first
			l := server.Listen("tcp4", loopback)
			var from, to [2]*nettest.Socket
			for i := range from {
				from[i], to[i] = nettest.Start(t, n).Dial("tcp4", l.Local), l.Accept()
			}
			w := start()
			for _, p := range []*nettest.Program{server, from[0].Program(), from[1].Program()} {
				require.NoError(t, w.tracker.Decide(uint32(p.PID()), lifecycle.ScopeNetwork))
			}
			if forgotten {
				w.forgetEnds()
			}
			w.report()
			for i := range from {
				nettest.Carry(from[i], nettest.Transfer{How: "write", Bytes: 100}, to[i], nettest.Transfer{How: "read", Bytes: 100})
				to[i].Close()
			}
			w.report()
			for i := range from {
				peer, known := fmt.Sprintf("ebpf.peer.pid=%d", from[i].Program().PID()), 1
				if forgotten {
					known = 0
				}
				require.EqualValues(t, known*100, w.sum(server, "ebpf.network.io", "ebpf.role=server", peer), forgotten)
				if known > 0 || endsInClose(t) {
					require.Len(t, w.points(server, "ebpf.network.operation.duration", "ebpf.operation=close", peer), known, forgotten)
				}
			}
			require.EqualValues(t, 200, w.sum(server, "ebpf.network.io", "ebpf.role=server"))
		}
	})
}

// forgetEnds deletes the entries of the ends of connections.
func (w *watching) forgetEnds() {
	w.t.Helper()
	var name tuple
	var who bindings.NetworkNetworkProcess
	var all []tuple
	for entries := w.table.ends.known.Iterate(); entries.Next(&name, &who); {
		all = append(all, name)
	}
	for i := range all {
		if err := w.table.ends.known.Delete(&all[i]); !errors.Is(err, ebpf.ErrKeyNotExist) {
			require.NoError(w.t, err)
		}
	}
}

// couple is a client and a server with a connection.
type couple struct {
	client, server *nettest.Program
	from, to       *nettest.Socket
}

// couples connects two clients with two servers in namespaces of their own; addresses and ports of the connections are the same.
func couples(t *testing.T) []*couple {
	t.Helper()
	var list []*couple
	var listeners []*nettest.Socket
	var near, far nettest.End
	for i := range 2 {
		here, there := nettest.New(t), nettest.New(t)
		if i == 0 {
			near, far = nettest.Join(t, here, there)
		} else {
			nettest.JoinLike(t, here, there, near, far)
		}
		c := &couple{client: nettest.Start(t, here), server: nettest.Start(t, there)}
		list, listeners = append(list, c), append(listeners, c.server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 8080)))
	}
	for i, c := range list { // both clients exist before one server has accepted
		c.from = c.client.DialFrom("tcp4", netip.AddrPortFrom(near.IPv4, 40000), listeners[i].Local)
	}
	for i, c := range list {
		c.to = listeners[i].Accept()
	}
	return list
}

// requireOwnPeers makes each client send, and checks that each process is reported with its own peer.
func requireOwnPeers(t *testing.T, w *watching, list []*couple) {
	t.Helper()
	bytes := func(i int) int64 { return int64(1000 * (i + 1)) }
	for i, c := range list {
		nettest.Carry(c.from, nettest.Transfer{How: "write", Bytes: bytes(i)}, c.to, nettest.Transfer{How: "read", Bytes: bytes(i)})
	}
	w.report()
	for i, c := range list {
		require.Equal(t, bytes(i), w.sum(c.client, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", c.server.PID()), "ebpf.role=client"), i)
		require.Equal(t, bytes(i), w.sum(c.server, "ebpf.network.io", fmt.Sprintf("ebpf.peer.pid=%d", c.client.PID()), "ebpf.role=server"), i)
	}
}

// TestConnectionsCalledTheSame checks that processes are reported with their own peers if two connections have the same addresses and ports
// on both ends at the same time, in two pairs of network namespaces.
func TestConnectionsCalledTheSame(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		requireOwnPeers(t, w, couples(t))
	})
}

// TestConnectionsCalledTheSameFromBefore checks that processes are reported with their own peers if such connections are from before the
// start.
func TestConnectionsCalledTheSameFromBefore(t *testing.T) {
	guest.TakesLong(t)
	runEachWay(t, func(t *testing.T, by *way) {
		list := couples(t)
		w := watch(t, config(), by.change, list[0].client, list[0].server, list[1].client, list[1].server)
		w.report()
		requireOwnPeers(t, w, list)
	})
}
