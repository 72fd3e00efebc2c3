// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// reportOf makes a report during which the kernel's own counts stayed the same, and returns these: a segment that was acknowledged late may
// be retransmitted after all has arrived.
func (w *watching) reportOf(counts func() [2]int64) [2]int64 {
	w.t.Helper()
	for range 100 {
		before := counts()
		w.report()
		if counts() == before {
			return before
		}
	}
	w.t.Fatal("the kernel's counts change during each report")
	return [2]int64{}
}

// tolerated is how far round-trip times may be from the kernel's: three times as far on an emulated CPU, which is slow with each packet.
func tolerated(difference float64) float64 {
	if guest.Running() {
		return 3 * difference
	}
	return difference
}

// TestRetransmitsAndRTT checks that retransmits are as many as the kernel counts, for the right process, and that the round-trip time is that
// of the path.
func TestRetransmitsAndRTT(t *testing.T) {
	retransmit(t, func(*testing.T, *model.Histogram, time.Duration) {})
}

// TestMeasureRTTOfATransfer checks that the mean round-trip time of a transfer is about that of the kernel.
func TestMeasureRTTOfATransfer(t *testing.T) {
	retransmit(t, func(t *testing.T, rtt *model.Histogram, kernel time.Duration) {
		t.Helper()
		require.InEpsilon(t, kernel.Seconds(), rtt.Sum/float64(rtt.Count), tolerated(0.3), "mean of the transfer against the kernel's at its end")
	})
}

// retransmit transfers by a path that loses segments; judge judges the round-trip times, with the kernel's own at the end.
func retransmit(t *testing.T, judge func(t *testing.T, rtt *model.Histogram, kernel time.Duration)) {
	const delay = 20 * time.Millisecond
	runEachWayUntilSeen(t, func(t *testing.T, by *way) (seen bool) {
		w := by.share(t)
		here, there := nettest.New(t), nettest.New(t)
		_, far, relay := nettest.JoinByRelay(t, here, there, nettest.Path{Delay: delay, Lose: nettest.LoseSegments(50)}, nettest.Path{})
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
		began := time.Now()
		from := client.Dial("tcp4", l.Local)
		to := l.Accept()
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amount}, to, nettest.Transfer{How: "read", Bytes: amount})
		kernel := from.Kernel()
		sent := w.reportOf(func() [2]int64 {
			return [2]int64{here.Counters(t)["TcpRetransSegs"], there.Counters(t)["TcpRetransSegs"]}
		})
		require.Positive(t, relay.Lost())
		if w.missed() > 0 {
			return false
		}
		require.Equal(t, sent, [2]int64{w.sum(client, "ebpf.tcp.retransmits", "ebpf.role=client"), w.sum(server, "ebpf.tcp.retransmits")})
		rtt := w.histogram(client, "ebpf.tcp.rtt")
		require.GreaterOrEqual(t, rtt.Min, delay.Seconds())
		require.Less(t, rtt.Max, time.Since(began).Seconds())
		judge(t, rtt, kernel.RTT)
		return true
	})
}

// TestRetransmitsThatAreNotSent checks that segments that wait for the address of a neighbour that does not answer are not reported as
// retransmitted, as the kernel does not count them.
func TestRetransmitsThatAreNotSent(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here := nettest.New(t)
		end, _ := nettest.Join(t, here, nettest.New(t))
		client := nettest.Start(t, here)
		absent := netip.AddrPortFrom(end.IPv4.Next().Next(), 80)
		const most = 5 // the neighbour may be given up before the SYN is sent again
		tries := 0
		kernel := map[string]int64{}
		for ; tries < most && kernel["TcpExtTCPSpuriousRtxHostQueues"] == 0; tries++ {
			require.Equal(t, "EHOSTUNREACH", client.TryDial("tcp4", absent, true).Errno)
			kernel = here.Counters(t)
		}
		require.Positive(t, kernel["TcpExtTCPSpuriousRtxHostQueues"], "it was tried")
		w.report()
		require.Equal(t, kernel["TcpRetransSegs"], w.sum(client, "ebpf.tcp.retransmits"))
		require.EqualValues(t, tries, w.sum(client, "ebpf.tcp.connection.failures"), "the connections were seen")
	})
}

// TestAnswersAreSentAgain checks that SYN-ACKs that a server retransmits, before there is a socket, are reported for it, as many as the
// kernel counts.
func TestAnswersAreSentAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far, relay := nettest.JoinByRelay(t, here, there, nettest.Path{}, nettest.Path{Lose: nettest.LoseAnswers(1)})
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
		client.Dial("tcp4", l.Local)
		l.Accept()
		again := w.reportOf(func() [2]int64 {
			return [2]int64{there.Counters(t)["TcpRetransSegs"], here.Counters(t)["TcpRetransSegs"]}
		})
		require.EqualValues(t, 1, relay.Lost())
		require.Positive(t, again[0])
		require.Equal(t, again[0], w.sum(server, "ebpf.tcp.retransmits", "ebpf.role=server"))
		require.Equal(t, again[1], w.sum(client, "ebpf.tcp.retransmits", "ebpf.role=client"))
	})
}

// TestRTTOfAnIdleConnection checks that the round-trip time is reported of idle connections, too: that of the handshake.
func TestRTTOfAnIdleConnection(t *testing.T) {
	idleRTT(t, func(*testing.T, *model.Histogram, time.Duration) {})
}

// TestMeasureRTTOfAnIdleConnection checks that the round-trip time of an idle connection is accurate within a tenth.
func TestMeasureRTTOfAnIdleConnection(t *testing.T) {
	idleRTT(t, func(t *testing.T, rtt *model.Histogram, kernel time.Duration) {
		t.Helper()
		require.InEpsilon(t, kernel.Seconds(), rtt.Sum/float64(rtt.Count), tolerated(0.1))
		require.InEpsilon(t, kernel.Seconds(), rtt.Max, tolerated(0.1))
	})
}

// idleRTT connects by a path with a delay, and leaves the connection idle; judge judges the round-trip times, with the kernel's own.
func idleRTT(t *testing.T, judge func(t *testing.T, rtt *model.Histogram, kernel time.Duration)) {
	const delay = 30 * time.Millisecond
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far, _ := nettest.JoinByRelay(t, here, there, nettest.Path{Delay: delay}, nettest.Path{})
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
		began := time.Now()
		from := client.Dial("tcp4", l.Local)
		took := time.Since(began)
		l.Accept()
		w.report()
		w.report()
		if here.Counters(t)["TcpRetransSegs"] > 0 {
			t.Skip("the host was so slow that the handshake was not timed")
		}
		rtt := w.histogram(client, "ebpf.tcp.rtt")
		require.GreaterOrEqual(t, rtt.Min, delay.Seconds())
		require.Less(t, rtt.Max, took.Seconds(), "there was no round trip but the handshake's")
		judge(t, rtt, from.Kernel().RTT) // the delay and what a busy host adds to it
	})
}

// TestResets checks that a reset is reported on both sides.
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

// TestDrops checks that a packet that the kernel drops is reported with its reason.
func TestDrops(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client := nettest.Start(t, n)
		absent := netip.MustParseAddrPort("127.0.0.1:9")
		before := w.drops()
		from := client.Dial("udp4", absent)
		for range 20 {
			from.TryWrite(nettest.Transfer{How: "write", Bytes: 1, Once: true}) // every other one returns the error of the one before
		}
		noPorts := n.Counters(t)["UdpNoPorts"]
		require.Positive(t, noPorts)
		require.Eventually(t, func() bool { return w.drops()-before >= noPorts }, time.Minute, time.Millisecond, "it counts before it drops")
	})
}

// TestHealthyConnectionsDropNothing checks that the segments that end a connection are not reported as drops: the FIN that arrives when this
// end is closed, and, if the kernel passes the socket of a drop, one that arrives in TIME_WAIT.
func TestHealthyConnectionsDropNothing(t *testing.T) {
	guest.TakesLong(t)
	const connections = 200
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client, server := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		before := w.unspecified()
		for range connections {
			from := client.Dial("tcp4", l.Local)
			to := l.Accept()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
			from.Close()
			to.Close()
		}
		for range connections {
			from := client.Dial("tcp4", l.Local)
			to := l.Accept()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
			from.Shutdown(unix.SHUT_WR)
			from.Close()
			to.Close()
		}
		after := w.unspecified()
		require.EqualValues(t, 20*connections, w.sum(client, "ebpf.network.io"), "they were reported")
		for _, p := range []*nettest.Program{client, server} {
			require.Empty(t, w.points(p, "ebpf.network.drops"))
		}
		if w.features.drops == bindings.NetworkProgDroppedOfSocket {
			require.Less(t, after-before, int64(connections))
		}
	})
}

// unspecified returns the drops of the host without a reason.
func (w *watching) unspecified() int64 {
	w.report()
	return w.sum(nil, "ebpf.network.drops", "ebpf.drop.reason=NOT_SPECIFIED")
}

// TestUnreadDatagramsAreDrops checks that what is lost with a socket's queue is reported.
func TestUnreadDatagramsAreDrops(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		client, server := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("udp4", loopback)
		from := client.Dial("udp4", l.Local)
		before := w.unspecified()
		from.Write(nettest.Transfer{How: "write", Bytes: 500, Chunk: 10})
		l.Close()
		require.Eventually(t, func() bool { return w.unspecified()-before >= 50 }, time.Minute, 50*time.Millisecond,
			"the kernel frees the socket a little later")
	})
}

// TestDropsOfAProcess checks that datagrams that do not fit in a socket's queue are reported for its process, as many as the kernel counts,
// whether the socket is connected, has only received before, or was open before the start.
func TestDropsOfAProcess(t *testing.T) {
	const datagrams = 300
	eachWayAnew(t, func(t *testing.T, start func() *watching) {
		n := nettest.New(t)
		here := nettest.Start(t, n)
		before := here.Listen("udp4", netip.MustParseAddrPort("127.0.0.1:8125"))
		w := start()
		require.NoError(t, w.tracker.Decide(uint32(here.PID()), lifecycle.ScopeNetwork))
		w.report()
		used := nettest.Start(t, n).Listen("udp4", loopback)
		connected := nettest.Start(t, n).Listen("udp4", loopback)
		counted := int64(0)
		for _, to := range []*nettest.Socket{before, used, connected} {
			to.SetOption(unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
			from := nettest.Start(t, n).Dial("udp4", to.Local)
			if to == connected {
				require.Empty(t, to.TryConnect(from.Local).Errno)
			}
			if to != before {
				from.Write(nettest.Transfer{How: "write", Bytes: 1, Once: true})
				to.Read(nettest.Transfer{How: "recvfrom", Bytes: 1, Once: true})
			}
			from.Write(nettest.Transfer{How: "write", Bytes: datagrams * 1000, Chunk: 1000})
			errors := func() [2]int64 { return [2]int64{n.Counters(t)["UdpRcvbufErrors"]} }
			require.Eventually(t, func() bool { return errors()[0]-counted > datagrams/2 }, time.Minute, time.Millisecond)
			full := w.reportOf(errors)[0] - counted // the kernel may process datagrams after they were sent
			counted += full
			if w.features.drops != bindings.NetworkProgDroppedOfSocket {
				require.GreaterOrEqual(t, w.sum(nil, "ebpf.network.drops"), counted, "the kernel does not say which process they belong to")
				continue
			}
			require.Equal(t, full, w.sum(to.Program(), "ebpf.network.drops", "ebpf.drop.reason=SOCKET_RCVBUFF"))
		}
	})
}

// drops returns the drops for lack of a socket, or without a reason if the kernel passes none.
func (w *watching) drops() int64 {
	w.report()
	if len(w.reasons) == 0 {
		return w.sum(nil, "ebpf.network.drops", "ebpf.drop.reason=NOT_SPECIFIED")
	}
	return w.sum(nil, "ebpf.network.drops", "ebpf.drop.reason=NO_SOCKET")
}
