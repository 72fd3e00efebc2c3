// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestDatagrams checks that one socket's datagrams are reported by peer, sent and received, whichever calls moved them.
func TestDatagrams(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		near, far := nettest.Join(t, here, there)
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		for _, c := range []struct {
			kind, family string
			from, to     netip.Addr
		}{{"udp4", "ipv4", near.IPv4, far.IPv4}, {"udp6", "ipv6", near.IPv6, far.IPv6}} {
			total := int64(0)
			unconnected := client.Listen(c.kind, netip.AddrPortFrom(c.from, 0))
			for _, how := range []string{"sendto", "sendmsg", "sendmmsg"} {
				for _, opposite := range []string{"recvfrom", "recvmsg", "recvmmsg"} {
					to := server.Listen(c.kind, netip.AddrPortFrom(c.to, 0))
					wrote := unconnected.Write(nettest.Transfer{How: how, Bytes: 800, Chunk: 100, To: to.Local})
					require.EqualValues(t, 800, wrote.Bytes)
					got := to.Read(nettest.Transfer{How: opposite, Bytes: 800, Chunk: 100, To: to.Local}) // recvmmsg has buffers for one then
					require.EqualValues(t, 800, got.Bytes)
					total += 800
					w.report()
					received := w.sum(server, "ebpf.network.io", "network.io.direction=receive", "ebpf.role=server",
						"network.transport=udp", "network.type="+c.family, "network.peer.address="+c.from.String())
					sent := w.sum(client, "ebpf.network.io", "network.io.direction=transmit", "network.transport=udp",
						"network.type="+c.family, "network.peer.address="+c.to.String())
					w.equal(total, received, 800, "%s %s", how, opposite)
					w.equal(total, sent, 800, "%s %s", how, opposite)
					to.Close()
				}
			}
			calls := w.histogram(server, "ebpf.network.operation.duration", "ebpf.operation=read", "network.type="+c.family)
			w.equal(3*3*8, int64(calls.Count), 8, "each datagram is a read of its own")
			for p, peer := range map[*nettest.Program]netip.Addr{client: c.to, server: c.from} {
				udp := []string{"network.transport=udp", "network.type=" + c.family}
				require.Equal(t, w.sum(p, "ebpf.network.io", udp...), w.sum(p, "ebpf.network.io", append(udp, "network.peer.address="+peer.String())...), "each peer is known")
			}
			unconnected.Close()
		}
	})
}

// TestConnectedDatagrams checks that a connected socket's datagrams are a client's, with the port of the server.
func TestConnectedDatagrams(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client, server := nettest.Start(t, n), nettest.Start(t, n)
		to := server.Listen("udp4", netip.MustParseAddrPort("127.0.0.1:0"))
		from := client.Dial("udp4", to.Local)
		from.Write(nettest.Transfer{How: "write", Bytes: 1000, Chunk: 100})
		to.Read(nettest.Transfer{How: "recvfrom", Bytes: 1000, Chunk: 100})
		w.report()
		if w.sum(client, "ebpf.network.io", "ebpf.role=client", "network.peer.port="+strconv.Itoa(int(to.Local.Port()))) != 1000 {
			w.show(client)
		}
		require.EqualValues(t, 1000, w.sum(client, "ebpf.network.io", "ebpf.role=client", "network.io.direction=transmit",
			"network.peer.address=127.0.0.1", "network.peer.port="+strconv.Itoa(int(to.Local.Port()))))
		if w.sum(server, "ebpf.network.io", "ebpf.peer.pid="+strconv.Itoa(client.PID())) != 1000 {
			w.show(server)
		}
		require.EqualValues(t, 1000, w.sum(server, "ebpf.network.io", "ebpf.role=server", "network.io.direction=receive",
			"network.peer.address=127.0.0.1", "ebpf.peer.pid="+strconv.Itoa(client.PID())))
	})
}

// TestConnectedAnew checks that datagrams are reported with the peer to which the socket was connected last, also if its port is that of the
// one before.
func TestConnectedAnew(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		near, far := nettest.Join(t, here, there)
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		for _, c := range []struct {
			kind      string
			near, far netip.Addr
		}{
			{"udp4", near.IPv4, far.IPv4},
			{"udp6", near.IPv6, far.IPv6},
			{"udp6", netip.AddrFrom16(near.IPv4.As16()), netip.AddrFrom16(far.IPv4.As16())},
		} {
			to := server.Listen(c.kind, netip.AddrPortFrom(c.far, 0))
			first := client.Listen(c.kind, netip.AddrPortFrom(c.near, to.Local.Port()))
			s := client.Open(c.kind)
			for i, remote := range []netip.AddrPort{first.Local, to.Local} {
				bytes := int64(10 + 90*i)
				require.Empty(t, s.TryConnect(remote).Errno)
				s.Write(nettest.Transfer{How: "write", Bytes: bytes, Once: true})
				w.report()
				require.EqualValues(t, bytes, w.sum(client, "ebpf.network.io", "ebpf.role=client", "network.io.direction=transmit",
					"network.peer.address="+remote.Addr().Unmap().String(), "network.peer.port="+strconv.Itoa(int(remote.Port()))), remote)
			}
			to.Close()
			first.Close()
			s.Close()
		}
	})
}

// TestErrorsAreNotReceived checks that what a socket has sent and reads from its error queue is not counted as received.
func TestErrorsAreNotReceived(t *testing.T) {
	const size = 500
	absent := netip.MustParseAddrPort("127.0.0.1:9")
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		client := nettest.Start(t, nettest.New(t))
		for _, connect := range []bool{true, false} {
			s := client.Open("udp4")
			s.SetOption(unix.SOL_IP, unix.IP_RECVERR, 1)
			write := nettest.Transfer{How: "sendto", Bytes: size, To: absent, Once: true}
			if connect {
				require.Empty(t, s.TryConnect(absent).Errno)
				write.To = netip.AddrPort{}
			}
			s.Write(write)
			require.Eventually(t, func() bool { // the call does not wait
				back := s.TryRead(nettest.Transfer{How: "recvmsg", Bytes: size, Flags: unix.MSG_ERRQUEUE, Once: true})
				return back.Errno == "" && back.Bytes == size
			}, time.Minute, time.Millisecond)
		}
		w.report()
		require.EqualValues(t, 2*size, w.sum(client, "ebpf.network.io", "network.io.direction=transmit"))
		require.Zero(t, w.sum(client, "ebpf.network.io", "network.io.direction=receive"))
		require.Empty(t, w.points(client, "ebpf.network.operation.duration", "ebpf.operation=read"))
	})
}

// TestPacketsAreNotCounted checks that nothing is reported of packet sockets, whatever the protocol of the packets.
func TestPacketsAreNotCounted(t *testing.T) {
	to := netip.MustParseAddrPort("127.0.0.1:7")
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		p := nettest.Start(t, nettest.New(t))
		for _, kind := range []string{"rawtcp4", "rawudp4"} {
			s := p.Open(kind)
			s.Write(nettest.Transfer{How: "sendto", Bytes: 40, To: to, Once: true})
			s.Read(nettest.Transfer{How: "recvfrom", Bytes: 60, Once: true})
			require.Empty(t, s.TryConnect(to).Errno)
			s.Write(nettest.Transfer{How: "write", Bytes: 40, Once: true})
			s.Close()
		}
		w.report()
		require.Empty(t, w.points(p, "ebpf.network.io"))
		require.Empty(t, w.points(p, "ebpf.network.operation.duration"))
		require.Empty(t, w.points(p, "ebpf.network.connections"))
	})
}
