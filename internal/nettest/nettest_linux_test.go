// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

// amount is what most transfers move: no multiple of a chunk.
const amount = 1<<20 + 12345

// connected makes a connection from a to b.
func connected(a, b *Program, kind string, to netip.AddrPort) (dialled, accepted *Socket) {
	l := b.Listen(kind, to)
	dialled = a.Dial(kind, l.Local)
	return dialled, l.Accept()
}

func TestTransfersCountThemselves(t *testing.T) {
	here, there := New(t), New(t)
	_, end := Join(t, here, there)
	client, server := Start(t, here), Start(t, there)
	reading := Reading()
	for _, family := range []struct {
		kind string
		to   netip.Addr
	}{{"tcp4", end.IPv4}, {"tcp6", end.IPv6}, {"tcp6", netip.AddrFrom16(end.IPv4.As16())}} {
		from, to := connected(client, server, family.kind, netip.AddrPortFrom(family.to, 0))
		require.Equal(t, from.Remote, to.Local)
		require.Equal(t, from.Local, to.Remote)
		total := uint64(0)
		for how, opposite := range reading {
			wrote, got := Carry(from, Transfer{How: how, Bytes: amount}, to, Transfer{How: opposite, Bytes: amount})
			require.EqualValues(t, amount, wrote.Bytes, how)
			require.EqualValues(t, amount, got.Bytes, opposite)
			require.Positive(t, wrote.Calls, how)
			require.GreaterOrEqual(t, got.Messages, got.Calls, opposite)
			total += amount
		}
		require.Equal(t, total, to.Kernel().BytesReceived, "the kernel's own count")
		from.Close()
		to.Close()
	}
}

func TestDatagramsToManyPeers(t *testing.T) {
	here, there := New(t), New(t)
	_, end := Join(t, here, there)
	client, server := Start(t, here), Start(t, there)
	for _, family := range []struct {
		kind    string
		any, to netip.Addr
	}{{"udp4", netip.IPv4Unspecified(), end.IPv4}, {"udp6", netip.IPv6Unspecified(), end.IPv6}} {
		from := client.Listen(family.kind, netip.AddrPortFrom(family.any, 0))
		for _, how := range []string{"sendto", "sendmsg", "sendmmsg"} {
			to := server.Listen(family.kind, netip.AddrPortFrom(family.to, 0))
			sent := from.Write(Transfer{How: how, Bytes: 800, Chunk: 100, To: to.Local})
			require.EqualValues(t, 8, sent.Messages, how)
			got := to.Read(Transfer{How: "recvmmsg", Bytes: 800, Chunk: 100})
			require.EqualValues(t, 8, got.Messages, how)
			require.EqualValues(t, 800, got.Bytes, how)
			to.Close()
		}
	}
}

func TestTranslation(t *testing.T) {
	rig := NewRouted(t)
	virtual := netip.MustParseAddrPort("192.0.2.80:80")
	server := Start(t, rig.Server)
	l := server.Listen("tcp4", netip.AddrPortFrom(rig.ServerEnd.IPv4, 8080))
	rig.Router.Translate(t, NAT{Protocol: unix.IPPROTO_TCP, To: virtual, Server: l.Local, Client: rig.RouterOut.IPv4})
	from := Start(t, rig.Client).Dial("tcp4", virtual)
	to := l.Accept()
	require.Equal(t, virtual, from.Remote)
	require.Equal(t, l.Local, to.Local)
	require.Equal(t, rig.RouterOut.IPv4, to.Remote.Addr(), "the server sees the router")
	wrote, got := Carry(from, Transfer{How: "write", Bytes: amount}, to, Transfer{How: "read", Bytes: amount})
	require.Equal(t, wrote.Bytes, got.Bytes)
}

func TestTranslationOfIPv6(t *testing.T) {
	rig := NewRouted(t)
	virtual := netip.MustParseAddrPort("[2001:db8::80]:80")
	l := Start(t, rig.Server).Listen("tcp6", netip.AddrPortFrom(rig.ServerEnd.IPv6, 8080))
	rig.Router.Translate(t, NAT{Protocol: unix.IPPROTO_TCP, To: virtual, Server: l.Local})
	from := Start(t, rig.Client).Dial("tcp6", virtual)
	require.Equal(t, from.Local, l.Accept().Remote)
}

func TestRelayDelaysAndLoses(t *testing.T) {
	const delay = 20 * time.Millisecond
	here, there := New(t), New(t)
	_, end, relay := JoinByRelay(t, here, there, Path{Delay: delay, Lose: LoseSegments(50)}, Path{})
	from, to := connected(Start(t, here), Start(t, there), "tcp4", netip.AddrPortFrom(end.IPv4, 0))
	wrote, got := Carry(from, Transfer{How: "write", Bytes: amount}, to, Transfer{How: "read", Bytes: amount})
	require.Equal(t, wrote.Bytes, got.Bytes)
	lost := relay.Lost()
	kernel := from.Kernel()
	require.GreaterOrEqual(t, lost, uint64(amount/1500/50))
	require.GreaterOrEqual(t, uint64(kernel.Retransmits), lost)
	require.Eventually(t, func() bool { // a segment that was acknowledged late may be retransmitted between two of these calls
		before := here.Counters(t)["TcpRetransSegs"]
		kernel = from.Kernel()
		return here.Counters(t)["TcpRetransSegs"] == before && before == int64(kernel.Retransmits)
	}, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, kernel.RTT, delay)
	require.Zero(t, relay.Dropped())
}

func TestConnectionsThatFail(t *testing.T) {
	n := New(t)
	client := Start(t, n)
	loopback := netip.MustParseAddrPort("127.0.0.1:1")
	require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", loopback, true).Errno)
	require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", loopback, false).Errno)
	require.Equal(t, "ENETUNREACH", client.TryDial("tcp4", netip.MustParseAddrPort("192.0.2.1:1"), true).Errno)
}

func TestResetAndEnd(t *testing.T) {
	n := New(t)
	client, server := Start(t, n), Start(t, n)
	from, to := connected(client, server, "tcp4", netip.MustParseAddrPort("127.0.0.1:0"))
	from.Reset()
	require.Equal(t, "ECONNRESET", to.TryRead(Transfer{How: "read", Bytes: 1}).Errno)
	client.Kill()
	pid := server.PID()
	server.End()
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPeekTruncateAndNothing(t *testing.T) {
	n := New(t)
	from, to := connected(Start(t, n), Start(t, n), "tcp4", netip.MustParseAddrPort("127.0.0.1:0"))
	from.Write(Transfer{How: "write", Bytes: 100})
	require.EqualValues(t, 100, to.Read(Transfer{How: "recvfrom", Bytes: 100, Flags: unix.MSG_PEEK, Once: true}).Bytes)
	require.EqualValues(t, 100, to.Read(Transfer{How: "recvfrom", Bytes: 100, Flags: unix.MSG_TRUNC, Once: true}).Bytes)
	require.Equal(t, "EAGAIN", to.TryRead(Transfer{How: "recvfrom", Bytes: 100, Flags: unix.MSG_DONTWAIT}).Errno)
	nothing := from.Write(Transfer{How: "write", Once: true})
	require.Equal(t, []int64{0, 1}, []int64{nothing.Bytes, nothing.Calls})
}

func TestSocketOfTwoPrograms(t *testing.T) {
	here, there := New(t), New(t)
	_, end := Join(t, here, there)
	server := Start(t, there)
	from, to := connected(Start(t, here), server, "tcp4", netip.AddrPortFrom(end.IPv4, 0))
	second := Start(t, nil) // in another namespace than the socket
	passed := to.Pass(second)
	to.Close()
	server.End()
	_, got := Carry(from, Transfer{How: "write", Bytes: amount}, passed, Transfer{How: "read", Bytes: amount})
	require.EqualValues(t, amount, got.Bytes)
	again := passed.Dup()
	passed.Close()
	_, got = Carry(from, Transfer{How: "write", Bytes: amount}, again, Transfer{How: "read", Bytes: amount})
	require.EqualValues(t, amount, got.Bytes)
}

func TestChurn(t *testing.T) {
	n := New(t)
	client, server := Start(t, n), Start(t, n)
	l := server.Listen("tcp4", netip.MustParseAddrPort("127.0.0.1:0"))
	done := make(chan Outcome)
	go func() { done <- l.Drain(500) }()
	require.EqualValues(t, 500, client.Churn("tcp4", l.Local, 500).Calls)
	require.EqualValues(t, 500, (<-done).Calls)
}

// TestNothingStays checks that a rig is gone after its test.
func TestNothingStays(t *testing.T) {
	var inode uint64
	t.Run("rig", func(t *testing.T) {
		a, b := New(t), New(t)
		inode = a.Inode(t)
		Join(t, a, b)
		Start(t, a)
	})
	require.NotZero(t, inode)
	seen := map[uint64]bool{} // of children: another process may have made a namespace with the number of a deleted one
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, folder := range processes {
		var stat unix.Stat_t
		if p, err := proctest.ReadStat(folder); err != nil || p.Parent != os.Getpid() && folder != proctest.Process(os.Getpid()) {
			continue
		}
		if unix.Stat(folder+"/ns/net", &stat) == nil {
			seen[stat.Ino] = true
		}
	}
	require.NotContains(t, seen, inode)
}

func TestParseCounters(t *testing.T) {
	counters := map[string]int64{}
	parseCounters("Tcp: MaxConn OutRsts\nTcp: -1 7\nTcpExt: A B\nTcpExt: 1 x 3\nlast line", counters)
	require.Equal(t, map[string]int64{"TcpMaxConn": -1, "TcpOutRsts": 7, "TcpExtA": 1}, counters)
}
