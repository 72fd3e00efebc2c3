// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// open returns how many connections of a program are reported in a state.
func (w *watching) open(of *nettest.Program, state string, wanted ...string) int64 {
	return w.sum(of, "ebpf.network.connections", append(wanted, "network.connection.state="+state)...)
}

// TestOpenConnections checks that connections are reported while they are open, by state, and that a peer is removed two reports after its
// last one was closed.
func TestOpenConnections(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		var from, to []*nettest.Socket
		for range 5 {
			from = append(from, client.Dial("tcp4", l.Local))
			to = append(to, l.Accept())
		}
		for i := range from {
			nettest.Carry(from[i], nettest.Transfer{How: "write", Bytes: 10}, to[i], nettest.Transfer{How: "read", Bytes: 10})
		}
		w.report()
		require.EqualValues(t, 5, w.open(client, "established", "ebpf.role=client"))
		require.EqualValues(t, 5, w.open(server, "established", "ebpf.role=server"))
		require.EqualValues(t, 1, w.open(server, "listen"))
		for i := range from {
			from[i].Close()
			to[i].Close()
		}
		w.report()
		require.EqualValues(t, 0, w.open(client, "established"))
		require.EqualValues(t, 50, w.sum(client, "ebpf.network.io"))
		w.report()
		require.EqualValues(t, 50, w.sum(client, "ebpf.network.io"), "reported once more")
		w.reportUntil(func() bool { return len(w.points(client, "ebpf.network.io")) == 0 }, "two reports after the kernel has freed the last socket")
		require.Empty(t, w.points(client, "ebpf.network.connections"))
		require.EqualValues(t, 1, w.open(server, "listen"))
		began := time.Now()
		again := client.Dial("tcp4", l.Local)
		again.Write(nettest.Transfer{How: "write", Bytes: 7})
		w.report()
		require.EqualValues(t, 7, w.sum(client, "ebpf.network.io"), "it begins anew")
		const skew = time.Second // of the clocks, one of which may be set meanwhile
		require.WithinRange(t, w.points(client, "ebpf.network.io")[0].Start, began.Add(-skew), time.Now().Add(skew))
	})
}

// TestWalksEnd checks that sockets from before the start are not searched again once all their processes are decided, and are while one is
// not.
func TestWalksEnd(t *testing.T) {
	guest.TakesLong(t)
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(socket)) }()
	w := watch(t, config(), nil)
	require.Equal(t, 1, w.adopted)
	require.Eventually(t, func() bool { // a process that has just begun was not
		asked, err := w.tracker.Decided()
		require.NoError(t, err)
		for _, pid := range asked {
			require.NoError(t, w.tracker.Decide(pid, lifecycle.ScopeNone))
		}
		w.adopted = 1
		require.NoError(t, w.adopt())
		return w.adopted == adoptions
	}, time.Minute, time.Millisecond)
	require.NoError(t, w.tracker.Forget(uint32(os.Getpid())))
	w.adopted = 1
	require.NoError(t, w.adopt())
	require.Equal(t, 2, w.adopted, "this process was not decided upon")
}

// TestUndecidedSocketsFromBefore checks that sockets that were open before the start are reported after the last walk, though their processes
// are not decided by then.
func TestUndecidedSocketsFromBefore(t *testing.T) {
	guest.TakesLong(t)
	eachWayAnew(t, func(t *testing.T, start func() *watching) {
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		client.Dial("tcp4", l.Local)
		l.Accept()
		w := start()
		for w.adopted < adoptions {
			require.Zero(t, w.open(client, "established"))
			w.report()
		}
		require.EqualValues(t, 1, w.open(client, "established", "ebpf.role=client", fmt.Sprintf("ebpf.peer.pid=%d", server.PID())))
		require.EqualValues(t, 1, w.open(server, "established", "ebpf.role=server", fmt.Sprintf("ebpf.peer.pid=%d", client.PID())))
		require.EqualValues(t, 1, w.open(server, "listen", "ebpf.role=server"))
	})
}

// TestSocketsFromBefore checks that sockets that were open before the start are reported, with their role, before they are used.
func TestSocketsFromBefore(t *testing.T) {
	guest.TakesLong(t)
	eachWayAnew(t, func(t *testing.T, start func() *watching) {
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		from := client.Dial("tcp4", l.Local)
		to := l.Accept()
		w := start()
		require.NoError(t, w.tracker.Decide(uint32(client.PID()), lifecycle.ScopeNetwork))
		require.NoError(t, w.tracker.Decide(uint32(server.PID()), lifecycle.ScopeNetwork))
		w.report()
		require.EqualValues(t, 1, w.open(client, "established", "ebpf.role=client"))
		require.EqualValues(t, 1, w.open(server, "established", "ebpf.role=server"))
		require.EqualValues(t, 1, w.open(server, "listen", "ebpf.role=server"))
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amount}, to, nettest.Transfer{How: "read", Bytes: amount})
		w.report()
		require.EqualValues(t, amount, w.sum(client, "ebpf.network.io", "network.io.direction=transmit", "ebpf.role=client"))
		require.EqualValues(t, amount, w.sum(server, "ebpf.network.io", "network.io.direction=receive", "ebpf.role=server"))
	})
}

// TestUnixSockets checks that Unix sockets are counted, without a peer, whichever calls move the bytes.
func TestUnixSockets(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		for _, c := range []struct{ write, read string }{
			{"sendmsg", "recvmsg"}, {"write", "splice"}, {"splice", "read"}, {"sendfile", "read"},
		} {
			p := nettest.Start(t, nettest.New(t))
			a, b := p.SocketPair()
			a.Write(nettest.Transfer{How: c.write, Bytes: 3000, Chunk: 1000})
			b.Read(nettest.Transfer{How: c.read, Bytes: 3000, Chunk: 1000})
			w.report()
			require.EqualValues(t, 3000, w.sum(p, "ebpf.network.io", "network.transport=unix", "network.io.direction=transmit"), c.write)
			require.EqualValues(t, 3000, w.sum(p, "ebpf.network.io", "network.transport=unix", "network.io.direction=receive"), c.read)
			p.End()
		}
		for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
			p := nettest.Start(t, nettest.New(t))
			a, b := p.SocketPairOf(kind)
			a.Write(nettest.Transfer{How: "sendmsg", Bytes: 3000, Chunk: 1000})
			b.Read(nettest.Transfer{How: "read", Bytes: 3000, Chunk: 1000})
			w.report()
			require.EqualValues(t, 3000, w.sum(p, "ebpf.network.io", "network.transport=unix", "network.io.direction=transmit"), kind)
			require.EqualValues(t, 3000, w.sum(p, "ebpf.network.io", "network.transport=unix", "network.io.direction=receive"), kind)
			for _, operation := range []string{"read", "write"} {
				require.EqualValues(t, 3, w.histogram(p, "ebpf.network.operation.duration", "ebpf.operation="+operation).Count, kind)
			}
			p.End()
		}
	})
}

// TestOutOfScope checks that nothing is reported of a process that is out of scope, and that it is reported once it comes into scope.
func TestOutOfScope(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		require.NoError(t, w.tracker.Decide(uint32(from.Program().PID()), lifecycle.ScopeNone))
		require.NoError(t, w.Drain(), "scopes are looked at again")
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
		w.report()
		require.Zero(t, w.sum(from.Program(), "ebpf.network.io"))
		require.EqualValues(t, 100, w.sum(to.Program(), "ebpf.network.io"))
		require.NoError(t, w.tracker.Decide(uint32(from.Program().PID()), lifecycle.ScopeNetwork))
		require.NoError(t, w.Drain())
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
		w.report()
		require.EqualValues(t, 100, w.sum(from.Program(), "ebpf.network.io"))
	})
}

// TestMPTCP checks that an MPTCP connection is reported once on each side, whether the other one supports it or not, with its round-trip
// time.
func TestMPTCP(t *testing.T) {
	if _, err := os.Stat("/proc/sys/net/mptcp"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the kernel has no MPTCP")
	}
	eachWay(t, func(t *testing.T, start func() *watching) {
		for _, kind := range []string{"mptcp4", "tcp4"} {
			w := start()
			n := nettest.New(t)
			server, client := nettest.Start(t, n), nettest.Start(t, n)
			l := server.Listen("mptcp4", loopback)
			from := client.Dial(kind, l.Local)
			to := l.Accept()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
			nettest.Carry(to, nettest.Transfer{How: "write", Bytes: 1000}, from, nettest.Transfer{How: "read", Bytes: 1000})
			w.report()
			for _, c := range []struct {
				of                      *nettest.Program
				role, begins            string
				sent, received, listens int64
			}{
				{client, "ebpf.role=client", "ebpf.operation=connect", 100, 1000, 0},
				{server, "ebpf.role=server", "ebpf.operation=accept", 1000, 100, 1},
			} {
				require.EqualValues(t, c.sent, w.sum(c.of, "ebpf.network.io", c.role, "network.io.direction=transmit"), kind)
				require.EqualValues(t, c.received, w.sum(c.of, "ebpf.network.io", c.role, "network.io.direction=receive"), kind)
				require.EqualValues(t, 1, w.histogram(c.of, "ebpf.network.operation.duration", c.begins).Count, kind)
				require.EqualValues(t, 1, w.open(c.of, "established", c.role), kind)
				require.EqualValues(t, c.listens, w.open(c.of, "listen"), kind)
				require.EqualValues(t, 1+c.listens, w.sum(c.of, "ebpf.network.connections"), kind)
				require.Positive(t, w.histogram(c.of, "ebpf.tcp.rtt", c.role).Count, kind)
			}
			require.Empty(t, w.points(client, "ebpf.network.io", "ebpf.role=server"))
			require.Empty(t, w.points(server, "ebpf.network.io", "ebpf.role=client"))
			client.End()
			server.End()
		}
	})
}

// TestClosesHaveThePeerOfTheirTransfers checks that the end of a connection is reported with the peer of its transfers, though another
// process uses the other end meanwhile.
func TestClosesHaveThePeerOfTheirTransfers(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n, from, to := pair(t)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
		worker := nettest.Start(t, n)
		passed := from.Pass(worker)
		nettest.Carry(passed, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
		to.Close()
		w.report()
		peer := fmt.Sprintf("ebpf.peer.pid=%d", from.Program().PID())
		require.EqualValues(t, 110, w.sum(to.Program(), "ebpf.network.io", "network.io.direction=receive", peer))
		if !endsInClose(t) {
			peer = fmt.Sprintf("ebpf.peer.pid=%d", worker.PID()) // the last one to use it
		}
		require.EqualValues(t, 1, w.histogram(to.Program(), "ebpf.network.operation.duration", "ebpf.operation=close", peer).Count)
	})
}
