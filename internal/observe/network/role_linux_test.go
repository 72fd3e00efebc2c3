// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// listener returns a socket that listens on a port that others may listen on, too.
func listener(p *nettest.Program, on *nettest.Socket, backlog int) *nettest.Socket {
	local := loopback
	if on != nil {
		local = on.Local
	}
	l := p.Open("tcp4")
	l.SetOption(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	l.Bind(local)
	l.ListenFor(backlog)
	return l
}

// exchange makes both ends of a connection send so much, and closes it.
func exchange(from, to *nettest.Socket, bytes int64) {
	nettest.Carry(from, nettest.Transfer{How: "write", Bytes: bytes}, to, nettest.Transfer{How: "read", Bytes: bytes})
	nettest.Carry(to, nettest.Transfer{How: "write", Bytes: bytes}, from, nettest.Transfer{How: "read", Bytes: bytes})
	from.Close()
	to.Close()
}

// TestRoleWithoutAListener checks that a connection is a server's on the side that accepted it, when no process listens any more on its port,
// and when one of several no longer does.
func TestRoleWithoutAListener(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		for _, backlog := range []int{0, 16} {
			w := start()
			n := nettest.New(t)
			server, client := nettest.Start(t, n), nettest.Start(t, n)
			one := listener(server, nil, backlog)
			another := listener(server, one, backlog)
			one.Close()
			from := client.Dial("tcp4", another.Local)
			exchange(from, another.Accept(), 100)
			from = client.Dial("tcp4", another.Local)
			to := another.Accept()
			another.Close()
			exchange(from, to, 100)
			w.report()
			for _, direction := range []string{"network.io.direction=receive", "network.io.direction=transmit"} {
				require.EqualValues(t, 200, w.sum(server, "ebpf.network.io", direction, "ebpf.role=server"), backlog)
				require.EqualValues(t, 200, w.sum(client, "ebpf.network.io", direction, "ebpf.role=client"), backlog)
			}
			if backlog > 0 || endsInClose(t) { // else that they were accepted is known only when they are used
				require.Empty(t, w.points(server, "ebpf.network.operation.duration", "ebpf.role=client"))
			}
		}
	})
}

// TestAcceptedIdle checks that connections that were accepted and then not used are reported, of the process that accepted them, and so is
// what becomes of them.
func TestAcceptedIdle(t *testing.T) {
	const connections = 5
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		n := nettest.New(t)
		parent, worker, client := nettest.Start(t, n), nettest.Start(t, n), nettest.Start(t, n)
		own := parent.Listen("tcp4", loopback)
		shared := own.Pass(worker)
		var from, to []*nettest.Socket
		for range connections {
			from = append(from, client.Dial("tcp4", own.Local))
			to = append(to, shared.Accept())
		}
		w.report()
		require.EqualValues(t, connections, w.open(client, "established", "ebpf.role=client"))
		require.EqualValues(t, connections, w.open(worker, "established", "ebpf.role=server", "network.peer.address=127.0.0.1"))
		require.Zero(t, w.open(parent, "established"))
		from[0].Reset()
		require.Equal(t, "ECONNRESET", to[0].TryRead(nettest.Transfer{How: "read", Bytes: 1}).Errno)
		last := client.Dial("tcp4", own.Local)
		reset := shared.Accept()
		last.Reset()
		require.Eventually(t, func() bool { return reset.Kernel().State == closed }, time.Minute, time.Millisecond)
		w.report()
		require.EqualValues(t, connections-1, w.open(worker, "established", "ebpf.role=server"))
		require.EqualValues(t, 2, w.sum(worker, "ebpf.tcp.resets", "network.io.direction=receive", "ebpf.role=server"))
		reset.Close()
	})
}

// TestRoleOfSocketsFromBefore checks the role of a connection that is discovered before the socket that it was accepted from.
func TestRoleOfSocketsFromBefore(t *testing.T) {
	runEachWay(t, func(t *testing.T, by *way) {
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		first := server.Listen("tcp4", loopback)
		l := server.Listen("tcp4", loopback)
		first.Close() // its descriptor, which is lower, is the connection's
		from := client.Dial("tcp4", l.Local)
		to := l.Accept()
		w := watch(t, config(), by.change, client, server)
		w.report()
		require.EqualValues(t, 1, w.open(server, "established", "ebpf.role=server"))
		exchange(from, to, 100)
		w.report()
		require.EqualValues(t, 200, w.sum(server, "ebpf.network.io", "ebpf.role=server"))
		require.EqualValues(t, 200, w.sum(client, "ebpf.network.io", "ebpf.role=client"))
	})
}

// TestListenersFromBefore checks that a port has a listener until the last of several sockets on it is closed, those from before the start
// included, of which processes may have several descriptors; in scope or not.
func TestListenersFromBefore(t *testing.T) {
	guest.TakesLong(t)
	eachWayAnew(t, func(t *testing.T, start func() *watching) {
		n := nettest.New(t)
		for _, scope := range []lifecycle.Scope{lifecycle.ScopeNetwork, lifecycle.ScopeNone} {
			server, worker := nettest.Start(t, n), nettest.Start(t, n)
			one := listener(server, nil, 16)
			another := listener(server, one, 16)
			again, shared := another.Dup(), another.Pass(worker)
			w := start()
			require.NoError(t, w.tracker.Decide(uint32(server.PID()), scope))
			require.NoError(t, w.tracker.Decide(uint32(worker.PID()), scope))
			late := listener(server, one, 16)
			for w.adopted < adoptions {
				w.report()
			}
			name := tuple{
				Netns: uint32(n.Inode(t)), Local: words(one.Local.Addr()), LocalPort: one.Local.Port(),
				Transport: uint8(bindings.NetworkNetworkTransportNETWORK_TCP),
			}
			for _, l := range []*nettest.Socket{one, another, again, late, shared} {
				who, err := w.table.ends.listening(&name)
				require.NoError(t, err)
				require.NotNil(t, who)
				l.Close()
			}
			who, err := w.table.ends.listening(&name)
			require.NoError(t, err)
			require.Nil(t, who, "no process listens any more")
			server.End()
			worker.End()
		}
	})
}
