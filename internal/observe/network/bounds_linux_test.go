// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestOverflow checks that peers beyond the bound are reported together, that none of their counts is lost, and that their slots are reused
// when they leave.
func TestOverflow(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const peers = 300
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	require.EqualValues(t, minSeries, w.plan.series)
	n := nettest.New(t)
	p := nettest.Start(t, n)
	server := p.Listen("udp4", netip.MustParseAddrPort("0.0.0.0:0"))
	from := nettest.Start(t, n).Listen("udp4", netip.MustParseAddrPort("127.0.0.1:0"))
	for i := range peers {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(1 + i/250), byte(1 + i%250)}), server.Local.Port())
		from.Write(nettest.Transfer{How: "sendto", Bytes: 10, Chunk: 10, To: to, Once: true})
	}
	w.report()
	all := w.sum(from.Program(), "ebpf.network.io", "network.io.direction=transmit")
	rest := w.sum(from.Program(), "ebpf.network.io", "otel.metric.overflow=true")
	own := len(w.points(from.Program(), "ebpf.network.io", "ebpf.role=client"))
	require.EqualValues(t, peers*10, all)
	require.EqualValues(t, (peers-own)*10, rest)
	require.Greater(t, own, 8, "other processes of this host have series, too")
	require.Positive(t, w.loss("series_full"))
	for range idleFlows + 3 {
		w.report()
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.9.9"), server.Local.Port())
	from.Write(nettest.Transfer{How: "sendto", Bytes: 10, Chunk: 10, To: to, Once: true})
	w.report()
	require.EqualValues(t, 10, w.sum(from.Program(), "ebpf.network.io", "network.peer.address=127.0.9.9"))
}

// TestChurn checks that connections that are closed at once are all counted, on both sides.
func TestChurn(t *testing.T) {
	guest.TakesLong(t)
	const times = 2000
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		done := make(chan struct{})
		go func() {
			l.Drain(times)
			close(done)
		}()
		client.Churn("tcp4", l.Local, times)
		<-done
		w.report()
		for of, operation := range map[*nettest.Program]string{client: "connect", server: "accept"} {
			w.equal(times, w.operations(of, operation), 1, operation) // with the client, or without if its end was evicted meanwhile
		}
		w.equal(times, w.operations(client, "close"), 1, "close")
	})
}

// TestKilledInACall checks that a process that is killed while it waits keeps its counts, and that its connection is no longer reported.
func TestKilledInACall(t *testing.T) {
	guest.TakesLong(t)
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
		go func() { to.TryRead(nettest.Transfer{How: "read", Bytes: 10}) }()
		to.Waits()
		to.Program().Kill()
		from.Close() // or the kernel keeps the other end waiting for that
		w.report()
		require.EqualValues(t, 10, w.sum(to.Program(), "ebpf.network.io"))
		w.reportUntil(func() bool { return len(w.points(to.Program(), "ebpf.network.io")) == 0 })
		require.Empty(t, w.points(to.Program(), "ebpf.network.connections", "network.connection.state=established"))
	})
}

// TestDuplicates checks that a connection with two descriptors is reported once, until both are closed.
func TestDuplicates(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		again := from.Dup()
		again.Write(nettest.Transfer{How: "write", Bytes: 10})
		from.Close()
		again.Write(nettest.Transfer{How: "write", Bytes: 10})
		to.Read(nettest.Transfer{How: "read", Bytes: 20})
		w.report()
		require.EqualValues(t, 20, w.sum(from.Program(), "ebpf.network.io"))
		require.EqualValues(t, 1, w.open(from.Program(), "established"))
		again.Close()
		w.report()
		require.Zero(t, w.open(from.Program(), "established"))
	})
}

// TestPassedOn checks that operations on a socket are reported for the process that does them, also if another one has opened it.
func TestPassedOn(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n, from, to := pair(t)
		to.Read(nettest.Transfer{How: "read", Bytes: from.Write(nettest.Transfer{How: "write", Bytes: 100}).Bytes})
		worker := nettest.Start(t, n)
		passed := to.Pass(worker)
		from.Write(nettest.Transfer{How: "write", Bytes: 1000})
		passed.Read(nettest.Transfer{How: "read", Bytes: 1000})
		w.report()
		require.EqualValues(t, 100, w.sum(to.Program(), "ebpf.network.io", "ebpf.role=server", "network.io.direction=receive"))
		require.EqualValues(t, 1000, w.sum(worker, "ebpf.network.io", "ebpf.role=server", "network.io.direction=receive",
			"network.peer.address=127.0.0.1"))
	})
}

// TestMoreSocketsThanAreRemembered checks that operations on sockets beyond the bound are counted all the same, and that their number is.
func TestMoreSocketsThanAreRemembered(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const connections, refused = 2 * minSockets, 50
	small := config()
	small.SocketBytes = 0
	w := watch(t, small, nil)
	n := nettest.New(t)
	server, client := nettest.Start(t, n), nettest.Start(t, n)
	l := server.Listen("tcp4", loopback)
	for range connections {
		from, to := client.Dial("tcp4", l.Local), l.Accept()
		to.Read(nettest.Transfer{How: "read", Bytes: from.Write(nettest.Transfer{How: "write", Bytes: 10}).Bytes})
	}
	w.report()
	require.EqualValues(t, connections*10, w.sum(client, "ebpf.network.io", "ebpf.role=client", "network.io.direction=transmit"))
	require.EqualValues(t, connections*10, w.sum(server, "ebpf.network.io", "ebpf.role=server", "network.io.direction=receive"))
	for range refused {
		require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", netip.MustParseAddrPort("127.0.0.1:1"), true).Errno)
	}
	w.report()
	connects := w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect")
	require.EqualValues(t, connections, connects.Count)
	require.EqualValues(t, refused, w.sum(client, "ebpf.tcp.connection.failures", "error.type=ECONNREFUSED"))
	if w.features.socketStorage { // else the oldest is evicted, and found again
		require.Positive(t, w.loss("sockets_full"))
	}
}

// TestClosedSocketsLeaveRoom checks that a few sockets at a time are all remembered, however many there were before since the last report,
// and that those open then and failed connects are reported.
func TestClosedSocketsLeaveRoom(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const room = 1024 // others on the host may have a quarter of it before they are out of scope
	const refused, few = 10, room / 8
	runEachWay(t, func(t *testing.T, by *way) {
		small := config()
		small.SocketBytes = room * (socketBytes + endBytes)
		w := watch(t, small, by.change)
		require.InDelta(t, room, w.plan.sockets, room/4)
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		var known int32
		for i := range 3 * room {
			from, to := client.Dial("tcp4", l.Local), l.Accept()
			to.Close()
			from.Close()
			if i%few == 0 { // a busy kernel may free them later
				require.Eventually(t, func() bool {
					require.NoError(t, w.coll.Variables[bindings.NetworkVarSocketsKnown].Get(&known))
					return known <= int32(w.plan.sockets/2)
				}, time.Minute, time.Millisecond)
			}
		}
		for range 3 * room / few { // no record says when they are freed: they are counted each second
			for range few {
				from := client.Dial("udp4", l.Local)
				from.TryWrite(nettest.Transfer{How: "write", Bytes: 1, Once: true})
				from.Close()
			}
			require.Eventually(t, func() bool { // the kernel frees them later
				require.NoError(t, errors.Join(w.Drain(), w.coll.Variables[bindings.NetworkVarSocketsKnown].Get(&known)))
				return known <= int32(w.plan.sockets/2)
			}, time.Minute, 10*time.Millisecond)
		}
		for range refused {
			require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", netip.MustParseAddrPort("127.0.0.1:1"), false).Errno)
		}
		from, to := client.Dial("tcp4", l.Local), l.Accept()
		to.Read(nettest.Transfer{How: "read", Bytes: from.Write(nettest.Transfer{How: "write", Bytes: 10}).Bytes})
		w.report()
		require.Zero(t, w.loss("sockets_full"))
		require.EqualValues(t, refused, w.sum(client, "ebpf.tcp.connection.failures", "error.type=ECONNREFUSED"))
		require.EqualValues(t, 1, w.open(client, "established"))
		require.EqualValues(t, 1, w.open(server, "established"))
	})
}

// TestPortsOfDatagramsLeaveRoom checks that a listener is known however many ports datagrams were received on before.
func TestPortsOfDatagramsLeaveRoom(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const ports, room = 3 * minSeries, minSeries
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	n := nettest.New(t)
	p, server, client := nettest.Start(t, n), nettest.Start(t, n), nettest.Start(t, n)
	for i := range ports {
		to := p.Listen("udp4", loopback)
		// Each is a peer with a series of its own, or they are one.
		peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}), 0)
		from := p.Listen("udp4", peer)
		from.Write(nettest.Transfer{How: "sendto", Bytes: 1, To: to.Local, Once: true})
		to.Read(nettest.Transfer{How: "recvfrom", Bytes: 1, Once: true})
		from.Close()
		to.Close()
		if i%room == room/2 {
			for range idleFlows + 3 {
				w.report()
			}
		}
	}
	for range idleFlows + 3 {
		w.report()
	}
	l := listener(server, nil, 0)
	from := client.Dial("tcp4", l.Local)
	exchange(from, l.Accept(), 10)
	w.report()
	require.Zero(t, w.loss("listeners_full"))
	require.EqualValues(t, 10, w.sum(client, "ebpf.network.io", "network.io.direction=receive", fmt.Sprintf("ebpf.peer.pid=%d", server.PID())))
}
