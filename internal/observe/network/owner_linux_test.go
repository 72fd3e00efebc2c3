// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// TestExecutesTheSame checks that a server that replaces itself by the same program keeps counting in the same series, with their start.
func TestExecutesTheSame(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		received := []string{"ebpf.role=server", "network.io.direction=receive"}
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
		w.report()
		before := w.points(to.Program(), "ebpf.network.io", received...)
		require.Len(t, before, 1)
		to.Exec()
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 1000}, to, nettest.Transfer{How: "read", Bytes: 1000})
		w.report()
		after := w.points(to.Program(), "ebpf.network.io", received...)
		require.Len(t, after, 1, "the same series cannot be exported twice")
		require.EqualValues(t, 1100, after[0].Int)
		require.Equal(t, before[0].Start, after[0].Start)
		for range idleReports + 3 {
			w.report()
		}
		require.EqualValues(t, 1100, w.sum(to.Program(), "ebpf.network.io", received...), "nothing is lost when what it was is forgotten")
	})
}

// TestForked checks that operations of a forked child on its parent's connection are reported for the child, with the same role and peer.
func TestForked(t *testing.T) {
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		_, from, to := pair(t)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
		from.Write(nettest.Transfer{How: "write", Bytes: 1000})
		child := to.ReadInChild(1000)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 10}, to, nettest.Transfer{How: "read", Bytes: 10})
		w.report()
		received := []string{"ebpf.role=server", "network.io.direction=receive", "network.peer.address=127.0.0.1"}
		require.EqualValues(t, 110, w.sum(to.Program(), "ebpf.network.io", received...))
		require.EqualValues(t, 1000, w.sum(child, "ebpf.network.io", received...))
	})
}

// TestLeavesTheScope checks that a process that leaves the scope is no longer reported, though its sockets are open: whether the kernel has
// asked about it since or not. The other side still is.
func TestLeavesTheScope(t *testing.T) {
	guest.SameOnEveryKernel(t)
	eachWayAnew(t, func(t *testing.T, start func() *watching) {
		w := start()
		host := w.table.host.(*observetest.Host)
		for _, calls := range []bool{true, false} {
			_, from, to := pair(t)
			pid := uint32(from.Program().PID())
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
			w.report()
			require.EqualValues(t, 100, w.sum(from.Program(), "ebpf.network.io"))
			host.Everybody = false
			for key := range host.Subjects {
				if key.PID == pid {
					delete(host.Subjects, key)
				}
			}
			if calls {
				require.NoError(t, w.tracker.Decide(pid, lifecycle.ScopeNone))
			} else {
				require.NoError(t, w.tracker.Forget(pid))
			}
			w.report()
			require.Empty(t, w.points(from.Program(), "ebpf.network.io"))
			require.Empty(t, w.points(from.Program(), "ebpf.network.connections"))
			require.EqualValues(t, 100, w.sum(to.Program(), "ebpf.network.io"))
			host.Everybody = true
			require.NoError(t, w.tracker.Decide(pid, lifecycle.ScopeNetwork))
			w.report()
			w.report()
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 7}, to, nettest.Transfer{How: "read", Bytes: 7})
			w.report()
			require.EqualValues(t, 7, w.sum(from.Program(), "ebpf.network.io"), "it begins anew when it comes back")
		}
	})
}

// TestLastCountsAreExported checks that what is counted while a series is taken back is exported.
func TestLastCountsAreExported(t *testing.T) {
	guest.SameOnEveryKernel(t)
	w := watch(t, config(), nil)
	_, from, to := pair(t)
	nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
	w.report()
	id := uint32(math.MaxUint32)
	for live, s := range w.table.live {
		if s.key.Pid == uint32(from.Program().PID()) && s.counted.sent == 100 {
			id = live
		}
	}
	require.Contains(t, w.table.live, id)
	from.Close()
	to.Close()
	w.reportUntil(func() bool { return w.table.live[id].leaving })
	w.table.records.items[id*w.table.shards].Sent += 5 // by a program that had found the series before
	w.report()
	require.EqualValues(t, 105, w.sum(from.Program(), "ebpf.network.io"))
	require.NotContains(t, w.table.live, id)
	w.report()
	require.Empty(t, w.points(from.Program(), "ebpf.network.io"))
}
