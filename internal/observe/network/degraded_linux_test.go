// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestWithoutSystemCalls checks that bytes, handshakes and connections are reported without the tracepoints of system calls, and that
// Degraded names what is missing.
func TestWithoutSystemCalls(t *testing.T) {
	guest.TakesLong(t)
	runEachWay(t, func(t *testing.T, by *way) {
		c := config()
		c.SysRoot = t.TempDir()
		tracing := filepath.Join(c.SysRoot, "kernel", "tracing")
		require.NoError(t, os.MkdirAll(tracing, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tracing, "events"), nil, 0o644), "no folder: it cannot be opened")
		w := watch(t, c, by.change)
		require.ErrorContains(t, w.Degraded(), "accept, connect and close are not timed, and connects that fail at once are not counted")
		require.ErrorContains(t, w.Degraded(), "opening tracefs: ")

		_, from, to := pair(t)
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: amount}, to, nettest.Transfer{How: "read", Bytes: amount})
		w.report()
		for _, end := range []struct {
			of              *nettest.Program
			role, direction string
		}{{from.Program(), "client", "transmit"}, {to.Program(), "server", "receive"}} {
			require.EqualValues(t, amount, w.sum(end.of, "ebpf.network.io", "ebpf.role="+end.role, "network.io.direction="+end.direction))
			require.EqualValues(t, 1, w.open(end.of, "established", "ebpf.role="+end.role))
		}
		require.EqualValues(t, 1, w.histogram(from.Program(), "ebpf.network.operation.duration", "ebpf.operation=connect").Count, "the handshake")
		require.Empty(t, w.points(to.Program(), "ebpf.network.operation.duration", "ebpf.operation=accept"))
		reads := w.points(to.Program(), "ebpf.network.operation.duration", "ebpf.operation=read")
		if w.features.trampolines {
			require.NotEmpty(t, reads)
			return
		}
		require.Empty(t, reads)
		require.ErrorContains(t, w.Degraded(), "reads and writes are not timed")
		require.NoError(t, w.WithoutRequests(), "none are wanted")
		require.Zero(t, w.loss("threads_full"), "it is no loss")
	})
}

// TestWithoutRequests checks that requests are reported if no program runs at system calls, or that WithoutRequests returns why not.
func TestWithoutRequests(t *testing.T) {
	guest.TakesLong(t)
	runEachWay(t, func(t *testing.T, by *way) {
		c := requestConfig()
		c.SysRoot = t.TempDir()
		tracing := filepath.Join(c.SysRoot, "kernel", "tracing")
		require.NoError(t, os.MkdirAll(tracing, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tracing, "events"), nil, 0o644), "no folder: it cannot be opened")
		w := watch(t, c, by.change)
		if w.features.trampolines {
			require.NoError(t, w.WithoutRequests())
			return
		}
		require.ErrorContains(t, w.WithoutRequests(), "requests are unavailable")
		require.ErrorContains(t, w.WithoutRequests(), "opening tracefs: ")
	})
}
