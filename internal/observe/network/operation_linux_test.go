// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// States of TCP sockets: TCP_ESTABLISHED, TCP_SYN_SENT and TCP_CLOSE.
const established, synSent, closed = 1, 2, 7

// pair connects two programs that are in one namespace.
func pair(t *testing.T) (n *nettest.Namespace, from, to *nettest.Socket) {
	n = nettest.New(t)
	l := nettest.Start(t, n).Listen("tcp4", loopback)
	from = nettest.Start(t, n).Dial("tcp4", l.Local)
	return n, from, l.Accept()
}

// TestIdleReadIsWaiting checks that the time for which a reader and an accepter are idle is reported as waiting, not as the time of an
// operation.
func TestIdleReadIsWaiting(t *testing.T) { idleReads(t, func(*testing.T, *model.Histogram, string) {}) }

// TestMeasureIdleReads checks that calls that wait are short but for that.
func TestMeasureIdleReads(t *testing.T) {
	short := func(t *testing.T, worked *model.Histogram, what string) {
		t.Helper()
		require.Less(t, worked.Max, 0.1, what)
	}
	t.Run("on one CPU", func(t *testing.T) { idleReads(t, short) })
	t.Run("on another CPU", func(t *testing.T) { idleReadsOnAnotherCPU(t, short) })
}

// idleReads has a server wait to accept and to read; judge judges the time of the calls without the waiting.
func idleReads(t *testing.T, judge func(t *testing.T, worked *model.Histogram, what string)) {
	idle := map[string]time.Duration{"accept": 1500 * time.Millisecond, "read": 1500 * time.Millisecond}
	if os.Getenv("EBPFRECEIVER_LONG") != "" {
		idle["read"] = 10 * time.Second
	}
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		took := map[string]time.Duration{} // of the calls, or more
		accepted := make(chan *nettest.Socket)
		began := time.Now()
		go func() { accepted <- l.Accept() }()
		l.Waits()
		client.Sleep(idle["accept"])
		require.NoError(t, w.Drain())
		from := client.Dial("tcp4", l.Local)
		to := <-accepted
		took["accept"] = time.Since(began)
		read := make(chan nettest.Outcome)
		go func() { read <- to.Read(nettest.Transfer{How: "read", Bytes: 100}) }()
		to.Waits()
		client.Sleep(idle["read"])
		from.Write(nettest.Transfer{How: "write", Bytes: 100})
		took["read"] = (<-read).Took
		w.report()
		for _, operation := range []string{"read", "accept"} {
			worked := w.histogram(server, "ebpf.network.operation.duration", "ebpf.operation="+operation)
			waited := w.histogram(server, "ebpf.network.wait.duration", "ebpf.operation="+operation)
			require.EqualValues(t, 1, worked.Count, operation)
			require.EqualValues(t, 1, waited.Count, operation)
			require.GreaterOrEqual(t, waited.Sum, idle[operation].Seconds()-0.1, operation)
			require.Less(t, worked.Sum+waited.Sum, took[operation].Seconds(), operation)
			judge(t, worked, operation)
		}
	})
}

// TestIdleReadOnAnotherCPU checks that idle time is reported as waiting for readers that wake on another CPU. The clocks by which the
// scheduler counts CPU time differ by what the hypervisor has stolen from each CPU, seconds after some hours.
func TestIdleReadOnAnotherCPU(t *testing.T) {
	idleReadsOnAnotherCPU(t, func(*testing.T, *model.Histogram, string) {})
}

// idleReadsOnAnotherCPU has a reader wait on one CPU and wake on another one; judge judges the time of the call without the waiting.
func idleReadsOnAnotherCPU(t *testing.T, judge func(t *testing.T, worked *model.Histogram, what string)) {
	online, err := kernel.OnlineCPUs("/sys")
	require.NoError(t, err)
	if len(online) < 2 {
		t.Skip("needs two CPUs")
	}
	const idle = 300 * time.Millisecond
	eachWay(t, func(t *testing.T, start func() *watching) {
		for _, cpus := range [][2]int{{online[0], online[1]}, {online[1], online[0]}} {
			w := start()
			_, from, to := pair(t)
			moveTo(t, to.Program().PID(), cpus[0])
			read := make(chan nettest.Outcome)
			go func() { read <- to.Read(nettest.Transfer{How: "read", Bytes: 100}) }()
			to.Waits()
			from.Program().Sleep(idle / 2)
			moveTo(t, to.Program().PID(), cpus[1])
			from.Program().Sleep(idle / 2)
			from.Write(nettest.Transfer{How: "write", Bytes: 100})
			took := (<-read).Took
			w.report()
			worked := w.histogram(to.Program(), "ebpf.network.operation.duration", "ebpf.operation=read")
			waited := w.histogram(to.Program(), "ebpf.network.wait.duration", "ebpf.operation=read")
			require.EqualValues(t, 1, worked.Count)
			require.EqualValues(t, 1, waited.Count)
			require.GreaterOrEqual(t, waited.Sum, idle.Seconds()-0.1, "%v", cpus)
			require.Less(t, worked.Sum+waited.Sum, took.Seconds(), "%v", cpus)
			judge(t, worked, fmt.Sprint(cpus))
		}
	})
}

// moveTo makes all threads of a process run on one CPU.
func moveTo(t *testing.T, pid, cpu int) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	var one unix.CPUSet
	one.Set(cpu)
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		if err := unix.SchedSetaffinity(tid, &one); !errors.Is(err, unix.ESRCH) {
			require.NoError(t, err)
		}
	}
}

// TestOperationsAreCounted checks that each call is reported, and that its time is within what the program measured.
func TestOperationsAreCounted(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		wrote := from.Write(nettest.Transfer{How: "write", Bytes: 100 * 100, Chunk: 100})
		read := to.Read(nettest.Transfer{How: "recvfrom", Bytes: 100 * 100, Chunk: 100})
		nothing := from.Write(nettest.Transfer{How: "write", Once: true})
		require.EqualValues(t, 1, nothing.Calls)
		require.Equal(t, "EAGAIN", to.TryRead(nettest.Transfer{How: "recvfrom", Bytes: 1, Flags: unix.MSG_DONTWAIT}).Errno)
		from.Close()
		to.Close()
		w.report()
		writes := w.histogram(from.Program(), "ebpf.network.operation.duration", "ebpf.operation=write")
		reads := w.histogram(to.Program(), "ebpf.network.operation.duration", "ebpf.operation=read")
		require.EqualValues(t, wrote.Calls+nothing.Calls, writes.Count)
		require.Equal(t, uint64(read.Calls), reads.Count, "what found nothing is not counted")
		require.Less(t, writes.Sum, (wrote.Took + nothing.Took).Seconds())
		require.Less(t, reads.Sum, read.Took.Seconds())
		require.LessOrEqual(t, writes.Min, writes.Sum/float64(writes.Count))
		require.GreaterOrEqual(t, writes.Max, writes.Sum/float64(writes.Count))
		for _, s := range []*nettest.Socket{from, to} {
			closes := w.histogram(s.Program(), "ebpf.network.operation.duration", "ebpf.operation=close")
			require.EqualValues(t, 1, closes.Count)
		}
	})
}

// TestPeekAndTruncate checks that bytes that are read twice are counted once.
func TestPeekAndTruncate(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		from.Write(nettest.Transfer{How: "write", Bytes: 300})
		to.Read(nettest.Transfer{How: "recvfrom", Bytes: 100, Flags: unix.MSG_PEEK, Once: true})
		to.Read(nettest.Transfer{How: "recvmsg", Bytes: 100, Flags: unix.MSG_PEEK, Once: true})
		to.Read(nettest.Transfer{How: "recvfrom", Bytes: 200, Flags: unix.MSG_TRUNC, Once: true})
		to.Read(nettest.Transfer{How: "read", Bytes: 100})
		w.report()
		require.EqualValues(t, 300, w.sum(to.Program(), "ebpf.network.io", "network.io.direction=receive"))
	})
}

// TestHandshake checks that a connect takes as long as its handshake, whether the call waits or not.
func TestHandshake(t *testing.T) { handshakes(t, func(*testing.T, *model.Histogram, time.Duration) {}) }

// TestMeasureHandshakes checks that a connect takes little longer than the path of its handshake.
func TestMeasureHandshakes(t *testing.T) {
	handshakes(t, func(t *testing.T, connects *model.Histogram, delay time.Duration) {
		t.Helper()
		most := 2 * delay.Seconds()
		if guest.Running() {
			most *= 5 // an emulated CPU is slow with each packet
		}
		require.Less(t, connects.Max, most)
	})
}

// handshakes connects by a path with a delay; judge judges the times of the connects.
func handshakes(t *testing.T, judge func(t *testing.T, connects *model.Histogram, delay time.Duration)) {
	const delay = 50 * time.Millisecond
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		here, there := nettest.New(t), nettest.New(t)
		_, far, _ := nettest.JoinByRelay(t, here, there, nettest.Path{Delay: delay}, nettest.Path{})
		client, server := nettest.Start(t, here), nettest.Start(t, there)
		l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
		var took time.Duration
		for _, wait := range []bool{true, false} {
			dialled := client.TryDial("tcp4", l.Local, wait)
			require.Contains(t, []string{"", "EINPROGRESS"}, dialled.Errno)
			took += dialled.Took
			l.Accept()
		}
		w.report()
		connects := w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect", "ebpf.role=client")
		require.EqualValues(t, 2, connects.Count)
		require.GreaterOrEqual(t, connects.Min, delay.Seconds())
		require.Less(t, connects.Sum, took.Seconds(), "as the client has it")
		judge(t, connects, delay)
	})
}

// TestFailedConnects checks that failed connects are reported by their reason.
func TestFailedConnects(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		client := nettest.Start(t, nettest.New(t))
		refusing := netip.MustParseAddrPort("127.0.0.1:1")
		require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", refusing, true).Errno)
		require.Equal(t, "ECONNREFUSED", client.TryDial("tcp4", refusing, false).Errno)
		require.Equal(t, "ENETUNREACH", client.TryDial("tcp4", netip.MustParseAddrPort("192.0.2.1:1"), true).Errno)
		w.report()
		require.EqualValues(t, 2, w.sum(client, "ebpf.tcp.connection.failures", "error.type=ECONNREFUSED",
			"ebpf.role=client", "network.peer.address=127.0.0.1", "network.peer.port=1"))
		require.EqualValues(t, 1, w.sum(client, "ebpf.tcp.connection.failures", "error.type=ENETUNREACH",
			"network.peer.address=192.0.2.1"))
		require.EqualValues(t, 2, w.sum(client, "ebpf.tcp.resets", "network.io.direction=receive"))
	})
}

// TestConnectsThatDoNotBegin checks that a connect for which there is no port is reported with that reason, not as one that was given up.
func TestConnectsThatDoNotBegin(t *testing.T) {
	const ports, tries = 2, 6
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		n.Sysctl(t, "/proc/sys/net/ipv4/ip_local_port_range", "40000 40001")
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", netip.MustParseAddrPort("127.0.0.1:7780"))
		outcomes := map[string]int{}
		for range tries {
			outcomes[client.Open("tcp4").TryConnect(l.Local).Errno]++
		}
		require.Equal(t, map[string]int{"": ports, "EADDRNOTAVAIL": tries - ports}, outcomes)
		w.report()
		require.EqualValues(t, tries-ports, w.sum(client, "ebpf.tcp.connection.failures", "error.type=EADDRNOTAVAIL",
			"network.peer.address=127.0.0.1", "network.peer.port=7780"))
		require.EqualValues(t, tries-ports, w.sum(client, "ebpf.tcp.connection.failures"))
		require.EqualValues(t, ports, w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect").Count)
	})
}

// TestConnectAskedTwice checks that one connect whose result the program gets by calling connect again is reported once.
func TestConnectAskedTwice(t *testing.T) {
	refusing := netip.MustParseAddrPort("127.0.0.1:1")
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		for _, c := range []struct {
			to     netip.AddrPort
			result string
		}{{refusing, "ECONNREFUSED"}, {l.Local, ""}} {
			s := client.Open("tcp4")
			s.SetNonblocking()
			require.Equal(t, "EINPROGRESS", s.TryConnect(c.to).Errno)
			require.Eventually(t, func() bool { return s.Kernel().State != synSent }, time.Minute, time.Millisecond)
			require.Equal(t, c.result, s.TryConnect(c.to).Errno)
		}
		w.report()
		require.EqualValues(t, 1, w.sum(client, "ebpf.tcp.connection.failures"))
		require.EqualValues(t, 1, w.sum(client, "ebpf.tcp.connection.failures", "error.type=ECONNREFUSED"))
		require.EqualValues(t, 1, w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect").Count)
	})
}

// TestHandshakeThatWaitsForData checks that the duration of a handshake that begins with the first write (TCP_FASTOPEN_CONNECT) does not
// include the time before it.
func TestHandshakeThatWaitsForData(t *testing.T) {
	const late = 500 * time.Millisecond
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		n.Sysctl(t, "/proc/sys/net/ipv4/tcp_fastopen", "3")
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := listener(server, nil, 16)
		l.SetOption(unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 16)
		var longest time.Duration // of handshakes, from the first write on
		for range 2 {             // the first one is given a cookie
			from := client.Open("tcp4")
			from.SetOption(unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
			require.Empty(t, from.TryConnect(l.Local).Errno)
			client.Sleep(late)
			began := time.Now()
			from.Write(nettest.Transfer{How: "write", Bytes: 100})
			l.Accept().Read(nettest.Transfer{How: "read", Bytes: 100})
			require.Eventually(t, func() bool { return from.Kernel().State == established }, time.Minute, time.Millisecond)
			longest = max(longest, time.Since(began))
		}
		require.Positive(t, n.Counters(t)["TcpExtTCPFastOpenActive"], "the second one has waited")
		w.report()
		connects := w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect")
		require.EqualValues(t, 2, connects.Count)
		require.Less(t, connects.Max, longest.Seconds())
	})
}

// TestCloseOfNothing checks that the end of a socket that was never connected has no peer.
func TestCloseOfNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		p := nettest.Start(t, nettest.New(t))
		p.Open("tcp4").Close()
		p.Listen("tcp4", loopback).Close()
		w.report()
		require.Empty(t, w.points(p, "ebpf.network.operation.duration", "ebpf.role=client"))
		require.EqualValues(t, 1, w.histogram(p, "ebpf.network.operation.duration", "ebpf.operation=close", "ebpf.role=server").Count)
	})
}
