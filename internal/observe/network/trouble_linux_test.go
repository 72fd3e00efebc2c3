// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestRetransmitsAndRTT holds that retransmits are as many as the kernel counts, of the process whose they are, and that
// the round-trip time is that of the way.
func TestRetransmitsAndRTT(t *testing.T) {
	const delay = 20 * time.Millisecond
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far, relay := nettest.JoinByRelay(t, here, there, nettest.Path{Delay: delay, Lose: nettest.LoseSegments(50)}, nettest.Path{})
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
		from := client.Dial("tcp4", l.Local)
		to := l.Accept()
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amount}, to, nettest.Transfer{How: "read", Bytes: amount})
		kernel := from.Kernel()
		w.report()
		require.Positive(t, relay.Lost())
		require.Equal(t, here.Counters(t)["TcpRetransSegs"], w.sum(client, "ebpf.tcp.retransmits", "ebpf.role=client"))
		require.Equal(t, there.Counters(t)["TcpRetransSegs"], w.sum(server, "ebpf.tcp.retransmits"))
		rtt := w.histogram(client, "ebpf.tcp.rtt")
		require.GreaterOrEqual(t, rtt.Min, delay.Seconds())
		tolerance := 0.3
		if guest.Running() {
			tolerance = 0.9 // an emulated CPU takes its time for each packet
		}
		require.InEpsilon(t, kernel.RTT.Seconds(), rtt.Sum/float64(rtt.Count), tolerance, "mean of the transfer against the kernel's at its end")
	})
}

// TestRTTOfAnIdleConnection holds that the round-trip time is told within a tenth, of connections that nobody uses too.
func TestRTTOfAnIdleConnection(t *testing.T) {
	const delay = 30 * time.Millisecond
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far, _ := nettest.JoinByRelay(t, here, there, nettest.Path{Delay: delay}, nettest.Path{})
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
		from := client.Dial("tcp4", l.Local)
		l.Accept()
		w.report()
		w.report()
		rtt := w.histogram(client, "ebpf.tcp.rtt")
		tolerance := 0.1
		if guest.Running() {
			tolerance = 0.3 // an emulated CPU takes its time for each packet
		}
		require.InEpsilon(t, from.Kernel().RTT.Seconds(), rtt.Sum/float64(rtt.Count), tolerance)
		require.InEpsilon(t, delay.Seconds(), rtt.Max, tolerance)
	})
}

// TestResets holds that a reset is told on both sides.
func TestResets(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
		from.Reset()
		require.Equal(t, "ECONNRESET", to.TryRead(nettest.Transfer{How: "read", Bytes: 1}).Errno)
		w.report()
		require.EqualValues(t, 1, w.sum(from.Program(), "ebpf.tcp.resets", "network.io.direction=transmit", "ebpf.role=client"))
		require.EqualValues(t, 1, w.sum(to.Program(), "ebpf.tcp.resets", "network.io.direction=receive", "ebpf.role=server"))
	})
}

// TestDrops holds that a packet that the kernel drops is told by its reason.
func TestDrops(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client := nettest.Start(t, n)
		nobody := netip.MustParseAddrPort("127.0.0.1:9")
		before := w.drops()
		from := client.Dial("udp4", nobody)
		for range 20 {
			from.TryWrite(nettest.Transfer{How: "write", Bytes: 1, Once: true}) // every other one tells of the one before
		}
		after := w.drops()
		noPorts := n.Counters(t)["UdpNoPorts"]
		require.Positive(t, noPorts)
		require.GreaterOrEqual(t, after-before, noPorts)
	})
}

// drops counts those for want of a socket, or for no reason where the kernel tells none.
func (w *watching) drops() int64 {
	w.report()
	if len(w.reasons) == 0 {
		return w.sum(nil, "ebpf.network.drops", "ebpf.drop.reason=NOT_SPECIFIED")
	}
	return w.sum(nil, "ebpf.network.drops", "ebpf.drop.reason=NO_SOCKET")
}
