// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// countEachWay runs a test with each way to count open sockets: the iterator over socket storage where the kernel takes it, the list of TCP
// sockets with socket storage, also where no program can iterate over it, and the list without socket storage.
func countEachWay(t *testing.T, test func(t *testing.T, change func(*features))) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	t.Run("as the kernel allows", func(t *testing.T) { test(t, nil) })
	t.Run("listed", func(t *testing.T) { test(t, func(f *features) { f.listed = true }) })
	t.Run("listed, read from user space", func(t *testing.T) { test(t, func(f *features) { f.listed, f.iteratesMaps = true, false }) })
	t.Run("listed without socket storage", func(t *testing.T) { test(t, func(f *features) { f.listed, f.socketStorage = true, false }) })
}

// TestSocketsWithoutAFile checks that open connections are counted by state, also those that no process has a descriptor of: closed ones whose
// other side is open, subflows of MPTCP, and one whose only descriptor is in transit.
func TestSocketsWithoutAFile(t *testing.T) {
	countEachWay(t, func(t *testing.T, change func(*features)) {
		w := watch(t, config(), change)
		if guest.Running() && change == nil {
			require.Equal(t, !w.features.socketStorage, w.features.listed, "the kernels of guests refuse no iterator")
		}
		n := nettest.New(t)
		n.Sysctl(t, "/proc/sys/net/ipv4/tcp_fin_timeout", "120") // beyond 60 s the kernel keeps closed sockets, not only their addresses
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		connect := func() (from, to *nettest.Socket) {
			from, to = client.Dial("tcp4", l.Local), l.Accept()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
			return from, to
		}
		from, to := connect()
		closed, heldOpen := connect()
		closed.Close()
		halfClosed, reader := connect()
		halfClosed.Shutdown(unix.SHUT_WR)
		passed, other := connect()
		inTransit := leaveInTransit(t, passed)

		want := map[string][2]int64{"established": {2, 2}, "fin_wait_2": {2, 0}, "close_wait": {0, 2}, "listen": {0, 1}}
		requireOpen := func() {
			t.Helper()
			got := map[string][2]int64{}
			assert.Eventually(t, func() bool { // the kernel changes some states later
				w.report()
				for state := range want {
					got[state] = [2]int64{w.open(client, state), w.open(server, state)}
				}
				return maps.Equal(want, got)
			}, time.Minute, 10*time.Millisecond)
			require.Equal(t, want, got, "the client's and the server's")
		}
		requireOpen()
		if w.features.listed {
			require.GreaterOrEqual(t, w.listed.Load(), uint64(2*4+1))
		}

		if _, err := os.Stat("/proc/sys/net/mptcp"); err == nil {
			m := server.Listen("mptcp4", loopback)
			client.Dial("mptcp4", m.Local)
			m.Accept()
			want["established"], want["listen"] = [2]int64{3, 3}, [2]int64{0, 2}
			requireOpen()
			m.Close()
			want["listen"] = [2]int64{0, 1}
		}

		heldOpen.Close() // both sides are closed now
		reader.Shutdown(unix.SHUT_WR)
		want["fin_wait_2"], want["close_wait"] = [2]int64{0, 0}, [2]int64{0, 0}
		requireOpen()
		require.NoError(t, unix.Close(inTransit))
		want["established"] = [2]int64{want["established"][0] - 1, want["established"][1] - 1}
		want["close_wait"], want["fin_wait_2"] = [2]int64{0, 1}, [2]int64{1, 0}
		requireOpen()
		for _, s := range []*nettest.Socket{from, to, halfClosed, reader, other, l} {
			s.Close()
		}
		pids := []uint32{uint32(client.PID()), uint32(server.PID())}
		client.End()
		server.End()
		require.Eventually(t, func() bool { // the kernel frees sockets some time after they are closed
			w.report()
			return !slices.ContainsFunc(w.table.slots.items, func(s slot) bool {
				return slices.Contains(pids, s.Key.Pid) && s.Open != [states]uint32{}
			})
		}, time.Minute, 10*time.Millisecond)
	})
}

// leaveInTransit moves the only descriptor of a socket into the queue of a Unix socket, and returns the descriptor of that one.
func leaveInTransit(t *testing.T, s *nettest.Socket) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue")
	queue, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(queue, &unix.SockaddrUnix{Name: path}))
	s.PassTo(path)
	s.Close()
	return queue
}

// TestSocketsFromBeforeTheStartAreCounted checks that sockets that a process had open at the start are counted by state.
func TestSocketsFromBeforeTheStartAreCounted(t *testing.T) {
	countEachWay(t, func(t *testing.T, change func(*features)) {
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		client.Dial("tcp4", l.Local)
		l.Accept()
		halfClosed := client.Dial("tcp4", l.Local)
		l.Accept()
		halfClosed.Shutdown(unix.SHUT_WR)
		w := watch(t, config(), change, server, client)
		require.NoError(t, w.Drain())
		require.Eventually(t, func() bool {
			w.report()
			return w.open(client, "established") == 1 && w.open(client, "fin_wait_2") == 1 && w.open(server, "established") == 1 &&
				w.open(server, "close_wait") == 1 && w.open(server, "listen") == 1
		}, time.Minute, 10*time.Millisecond)
		require.EqualValues(t, 2, w.sum(client, "ebpf.network.connections"))
		require.EqualValues(t, 3, w.sum(server, "ebpf.network.connections"))
	})
}

// TestMeasureListedSocketBytes checks that a listed socket takes as much of the kernel's memory as is accounted for it, by the kernel's own account.
func TestMeasureListedSocketBytes(t *testing.T) {
	const sockets = 50_000
	enough := config()
	enough.SocketBytes = 64 << 20
	w := watch(t, enough, func(f *features) { f.listed = true })
	if !w.features.socketStorage || !w.features.allocates {
		t.Skip("before 6.1 the list is allocated as a whole")
	}
	list := w.coll.Maps[bindings.NetworkMapNetworkListedSockets]
	before := slabBytes(t)
	for address := range uint64(sockets) {
		require.NoError(t, list.Put(address, listedSocket{}))
	}
	took := slabBytes(t) - before
	require.InEpsilon(t, sockets*listedBytes, took, 0.15, "others use the kernel's memory meanwhile")
	known := w.MapBytes()
	w.report()
	require.GreaterOrEqual(t, w.MapBytes(), known+sockets*listedBytes)
}

// TestUnusedConnectionsLeaveTheList checks that connections that are accepted and closed without use are not listed any longer, also if data of
// the client crosses the end: the kernel destroys the server's socket then, and sends a reset by it after that.
func TestUnusedConnectionsLeaveTheList(t *testing.T) {
	guest.TakesLong(t)
	countEachWay(t, func(t *testing.T, change func(*features)) {
		w := watch(t, config(), change)
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		w.report()
		known := w.sockets.Load()
		for range 50 {
			from, to := client.Dial("tcp4", l.Local), l.Accept()
			to.Close()
			from.TryWrite(nettest.Transfer{How: "write", Bytes: 10}) // carries the acknowledgement of the end
			from.Close()
		}
		require.Eventually(t, func() bool {
			w.report()
			return w.sockets.Load() < known+10 // others on the host have sockets, too
		}, time.Minute, 10*time.Millisecond)
	})
}

// TestUnusedConnectionInTransit checks that an accepted connection is counted whose only descriptor was passed on unused, and those of a
// listener's queue as remembered.
func TestUnusedConnectionInTransit(t *testing.T) {
	guest.TakesLong(t)
	countEachWay(t, func(t *testing.T, change func(*features)) {
		w := watch(t, config(), change)
		n := nettest.New(t)
		server, client := nettest.Start(t, n), nettest.Start(t, n)
		l := server.Listen("tcp4", loopback)
		client.Dial("tcp4", l.Local)
		inTransit := leaveInTransit(t, l.Accept())
		w.report()
		require.EqualValues(t, 1, w.open(client, "established"))
		if w.features.listed && !w.features.iteratesMaps {
			require.Zero(t, w.open(server, "established"), "user space cannot read whose it is")
		} else {
			require.EqualValues(t, 1, w.open(server, "established"))
		}
		require.NoError(t, unix.Close(inTransit))
		const queued = 50
		known := w.sockets.Load()
		for range queued {
			client.Dial("tcp4", l.Local)
		}
		w.report()
		require.InDelta(t, known+2*queued, w.sockets.Load(), 10, "others on the host have sockets, too")
		require.EqualValues(t, queued, w.open(client, "established"))
		require.Zero(t, w.open(server, "established"))
	})
}

// TestSocketsAtTheAddressesOfOthers checks that sockets of a process out of scope do not count for the process that had others at the same
// addresses before.
func TestSocketsAtTheAddressesOfOthers(t *testing.T) {
	guest.TakesLong(t)
	countEachWay(t, func(t *testing.T, change func(*features)) {
		w := watch(t, config(), change)
		n := nettest.New(t)
		server, client, other := nettest.Start(t, n), nettest.Start(t, n), nettest.Start(t, n)
		require.NoError(t, w.tracker.Decide(uint32(other.PID()), lifecycle.ScopeNone))
		l := server.Listen("tcp4", loopback)
		var ends []*nettest.Socket
		for range 100 {
			from, to := client.Dial("tcp4", l.Local), l.Accept()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
			ends = append(ends, from, to)
		}
		for _, end := range ends {
			end.Close()
		}
		client.Dial("tcp4", l.Local)
		l.Accept()
		require.Eventually(t, func() bool {
			w.report()
			return w.open(client, "established") == 1 && w.open(server, "established") == 1
		}, time.Minute, 10*time.Millisecond)
		elsewhere := other.Listen("tcp4", loopback)
		for range 100 {
			other.Dial("tcp4", elsewhere.Local)
			elsewhere.Accept()
		}
		w.report()
		require.EqualValues(t, 1, w.open(client, "established"))
		require.EqualValues(t, 1, w.open(server, "established"))
	})
}

// TestRefusedIterator checks that the program that iterates over socket storage is loaded once, and that sockets are listed if the kernel
// refuses it, for whatever reason, but not because loading was cancelled or no file could be opened.
func TestRefusedIterator(t *testing.T) {
	spec, err := readPrograms(false)
	require.NoError(t, err)
	var loads int
	var answer error
	load := func(_ string, alone *ebpf.CollectionSpec, _ map[string]*ebpf.Map) (*ebpf.Collection, error) {
		loads++
		require.Len(t, alone.Programs, 1)
		require.Contains(t, alone.Programs, bindings.NetworkProgCountSocket)
		require.Contains(t, alone.Maps, bindings.NetworkMapNetworkSockets)
		require.NotContains(t, alone.Maps, bindings.NetworkMapNetworkThreads)
		return &ebpf.Collection{}, answer
	}
	unknown := trial{program: bindings.NetworkProgCountSocket}
	core, logs := observer.New(zap.InfoLevel)
	log := zap.New(core)
	for _, passing := range transient {
		answer = passing
		_, err := unknown.isRefused(load, spec, nil, log)
		require.ErrorIs(t, err, passing)
	}
	require.Zero(t, logs.Len())
	for _, c := range []struct {
		answer error
		want   bool
	}{{unix.EPERM, true}, {errors.Join(unix.EINVAL, fs.ErrInvalid), true}, {nil, false}} {
		fresh := trial{program: bindings.NetworkProgCountSocket}
		loads, answer = 0, c.answer
		for range 2 {
			refused, err := fresh.isRefused(load, spec, nil, log)
			require.NoError(t, err)
			require.Equal(t, c.want, refused)
		}
		require.Equal(t, 1, loads)
		if written := logs.TakeAll(); c.want {
			require.Len(t, written, 1)
			require.Equal(t, c.answer.Error(), written[0].ContextMap()["error"])
		} else {
			require.Empty(t, written)
		}
	}
	loads = 0
	for _, f := range []features{{}, {listed: true, socketStorage: true}} {
		counting, err := f.countingBy(load, spec, nil, log)
		require.NoError(t, err)
		require.True(t, counting.listed)
		require.False(t, counting.iteratesMaps)
	}
	require.Zero(t, loads, "nothing to find out")
}
