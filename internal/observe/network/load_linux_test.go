// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// TestDescriptorsUsedAgain checks that all is counted if several threads open and close, so that a descriptor's number is reused at once.
func TestDescriptorsUsedAgain(t *testing.T) {
	const threads, times, bytes = 8, 1500, 321
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		done := make(chan nettest.Outcome)
		go func() { done <- l.Absorb(threads, times) }()
		wrote := client.Storm("tcp4", l.Local, threads, times, bytes)
		read := <-done
		require.EqualValues(t, times*bytes, wrote.Bytes)
		w.report()
		w.equal(wrote.Bytes, w.sum(client, "ebpf.network.io", "network.io.direction=transmit", "ebpf.role=client",
			fmt.Sprintf("network.peer.port=%d", l.Local.Port())), bytes)
		w.equal(read.Bytes, w.sum(server, "ebpf.network.io", "network.io.direction=receive"), bytes)
		require.Zero(t, w.sum(client, "ebpf.network.io", "network.io.direction=receive"))
		require.Zero(t, w.sum(server, "ebpf.network.io", "network.io.direction=transmit"))
		connects := w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect")
		w.equal(times, int64(connects.Count), 1)
	})
}

// TestPartialWrites checks that of a write that does not fit the part that was accepted is counted.
func TestPartialWrites(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		from.SendBuffer(8 << 10)
		all := nettest.Transfer{How: "sendto", Bytes: 64 << 20, Chunk: 1 << 20, Flags: unix.MSG_DONTWAIT}
		wrote := from.TryWrite(all)
		require.Equal(t, "EAGAIN", wrote.Errno)
		require.Positive(t, wrote.Bytes)
		require.NotZero(t, wrote.Bytes%int64(all.Chunk), "the last write was not taken whole")
		to.Read(nettest.Transfer{How: "read", Bytes: wrote.Bytes})
		w.report()
		require.Equal(t, wrote.Bytes, w.sum(from.Program(), "ebpf.network.io", "network.io.direction=transmit"))
		require.Equal(t, wrote.Bytes, w.sum(to.Program(), "ebpf.network.io", "network.io.direction=receive"))
		writes := w.histogram(from.Program(), "ebpf.network.operation.duration", "ebpf.operation=write")
		require.EqualValues(t, wrote.Calls-1, writes.Count, "the one that found no room is none")
	})
}

// TestPeekAndTruncateDatagrams checks that a datagram that is peeked at is counted once, and with the length that the call returns if the
// buffer is too small for it.
func TestPeekAndTruncateDatagrams(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client, server := nettest.Start(t, n), nettest.Start(t, n)
		to := server.Listen("udp4", loopback)
		from := client.Dial("udp4", to.Local)
		from.Write(nettest.Transfer{How: "write", Bytes: 3000, Chunk: 1000})
		total := int64(0)
		for _, c := range []struct {
			flags int
			chunk int
			want  int64
		}{{unix.MSG_PEEK, 1000, 1000}, {unix.MSG_PEEK | unix.MSG_TRUNC, 10, 1000}, {0, 1000, 1000}, {unix.MSG_TRUNC, 10, 1000}, {0, 10, 10}} {
			got := to.Read(nettest.Transfer{How: "recvfrom", Bytes: int64(c.chunk), Chunk: c.chunk, Flags: c.flags, Once: true})
			require.Equal(t, c.want, got.Bytes, "%+v", c)
			if c.flags&unix.MSG_PEEK == 0 {
				total += got.Bytes
			}
		}
		w.report()
		require.Equal(t, total, w.sum(server, "ebpf.network.io", "network.io.direction=receive", "network.peer.address=127.0.0.1"))
		reads := w.histogram(server, "ebpf.network.operation.duration", "ebpf.operation=read")
		require.EqualValues(t, 3, reads.Count)
	})
}

// TestPeersOfOneCall checks that of one call that sends to several peers, or receives from several, each peer has its own bytes.
func TestPeersOfOneCall(t *testing.T) {
	const messages, bytes = 6, 100
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client, server := nettest.Start(t, n), nettest.Start(t, n)
		to := server.Listen("udp4", netip.MustParseAddrPort("0.0.0.0:0"))
		var peers []netip.AddrPort
		for i := range 3 {
			peers = append(peers, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 7, byte(i + 1)}), to.Local.Port()))
		}
		from := client.Listen("udp4", netip.MustParseAddrPort("0.0.0.0:0"))
		wrote := from.Write(nettest.Transfer{How: "sendmmsg", Bytes: messages * bytes, Chunk: bytes, Messages: messages, Tos: peers, Once: true})
		require.EqualValues(t, messages, wrote.Messages)
		to.Read(nettest.Transfer{How: "recvmmsg", Bytes: messages * bytes, Chunk: bytes, Messages: messages, To: to.Local, Once: true})
		before := n.Counters(t)["IpInDelivers"]
		for _, peer := range peers { // each answers from its own address
			nettest.Start(t, n).DialFrom("udp4", netip.AddrPortFrom(peer.Addr(), 0), netip.AddrPortFrom(peer.Addr(), from.Local.Port())).
				Write(nettest.Transfer{How: "write", Bytes: 2 * bytes, Chunk: bytes})
		}
		require.Eventually(t, func() bool { return n.Counters(t)["IpInDelivers"] >= before+messages }, time.Minute, time.Millisecond, "all have arrived")
		read := from.Read(nettest.Transfer{How: "recvmmsg", Bytes: messages * bytes, Chunk: bytes, Messages: messages, To: from.Local, Once: true})
		require.EqualValues(t, messages, read.Messages, "all in one call")
		w.report()
		for _, peer := range peers {
			address := "network.peer.address=" + peer.Addr().String()
			require.EqualValues(t, 2*bytes, w.sum(client, "ebpf.network.io", "network.io.direction=transmit", address), peer)
			require.EqualValues(t, 2*bytes, w.sum(client, "ebpf.network.io", "network.io.direction=receive", address), peer)
		}
	})
}

// TestConnectionsThatWait checks that a server finds the clients of the connections that have waited for it, all of them at once and more
// than there are slots for series.
func TestConnectionsThatWait(t *testing.T) {
	guest.TakesLong(t)
	const waiting = 1000
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	n := nettest.New(t)
	server, client := nettest.Start(t, n), nettest.Start(t, n)
	l := server.Listen("tcp4", loopback)
	client.Storm("tcp4", l.Local, 1, waiting, 10)
	require.EqualValues(t, waiting*10, l.Absorb(1, waiting).Bytes)
	w.report()
	require.EqualValues(t, waiting*10, w.sum(server, "ebpf.network.io", "network.io.direction=receive", fmt.Sprintf("ebpf.peer.pid=%d", client.PID())))
}

// TestForgottenEnds checks that a client that is not found is counted if more ends were noted a moment ago than are kept, and only then: it
// may have been evicted.
func TestForgottenEnds(t *testing.T) {
	guest.SameOnEveryKernel(t)
	w := watch(t, config(), nil)
	n := nettest.New(t)
	server, unnoted := nettest.Start(t, n), nettest.Start(t, n)
	require.NoError(t, w.tracker.Decide(uint32(unnoted.PID()), lifecycle.ScopeNone)) // it is not noted, as if it had been evicted
	l := server.Listen("tcp4", loopback)
	meet := func() uint64 {
		exchange(unnoted.Dial("tcp4", l.Local), l.Accept(), 10)
		w.report()
		return w.loss("ends_full")
	}
	var noted uint32
	ends, clients := w.coll.Variables[bindings.NetworkVarEndsNoted], w.coll.Variables[bindings.NetworkVarClientsNoted]
	require.NoError(t, ends.Get(&noted))
	require.Zero(t, meet())
	require.NoError(t, ends.Set(noted+w.plan.ends))
	require.NoError(t, clients.Set(w.noted.clients+1))
	require.Positive(t, meet())
	require.EqualValues(t, 20, w.sum(server, "ebpf.network.io", "network.io.direction=receive", "network.peer.address=127.0.0.1"))
}

// TestNoRoomForListeners checks that listening sockets that do not fit in the table are counted, and that operations on their connections are
// reported.
func TestNoRoomForListeners(t *testing.T) {
	guest.SameOnEveryKernel(t)
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	n := nettest.New(t)
	server, client := nettest.Start(t, n), nettest.Start(t, n)
	var l *nettest.Socket
	for range 2*minSeries + 20 {
		l = server.Listen("tcp4", loopback)
	}
	nettest.Carry(client.Dial("tcp4", l.Local), nettest.Transfer{How: "write", Bytes: 100}, l.Accept(), nettest.Transfer{How: "read", Bytes: 100})
	w.report()
	require.GreaterOrEqual(t, w.loss("listeners_full"), uint64(20))
	require.EqualValues(t, 100, w.sum(client, "ebpf.network.io", "network.io.direction=transmit"))
	require.EqualValues(t, 100, w.sum(server, "ebpf.network.io", "network.io.direction=receive"))
}

// TestNoRoomForCounts checks that each failure that does not fit in the table is counted as lost.
func TestNoRoomForCounts(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const refused = 5
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	one := uint64(1)
	for code := range uint16(minSeries) {
		key := bindings.NetworkNetworkCountKey{Series: minSeries - 1, Kind: uint16(bindings.NetworkNetworkCountKindNETWORK_DROPS), Code: 1000 + code}
		if err := w.table.counts.Update(&key, &one, ebpf.UpdateNoExist); err != nil {
			require.ErrorIs(t, err, unix.E2BIG) // drops on the host have taken the other entries
		}
	}
	before := w.loss("counts_full")
	client := nettest.Start(t, nettest.New(t))
	for range refused {
		require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", netip.MustParseAddrPort("127.0.0.1:1"), true).Errno)
	}
	w.report()
	require.GreaterOrEqual(t, w.loss("counts_full")-before, uint64(refused))
	require.Zero(t, w.sum(client, "ebpf.tcp.connection.failures"))
	require.EqualValues(t, refused, w.sum(client, "ebpf.tcp.resets", "network.io.direction=receive"), "what has its own entry is reported")
}
