// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// BenchmarkTransfer tells what the programs take that run when a byte is sent or received, by the kernel's own
// statistics, of which some 40 ns are the statistics themselves. One thread has both ends of a connection. Between its
// calls it writes to as much memory as keeps little else in the CPU's first cache, as programs do that have something
// to send.
func BenchmarkTransfer(b *testing.B) {
	w := observing(b, config(), nil)
	defer func() { require.NoError(b, w.end()) }()
	require.NoError(b, w.tracker.Decide(uint32(os.Getpid()), lifecycle.ScopeNetwork))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	near, far := connection(b)
	statistics, err := kernel.EnableRunStats()
	require.NoError(b, err)
	defer func() { require.NoError(b, statistics.Close()) }()
	var used [128 << 10]byte
	work := func() {
		for i := 0; i < len(used); i += 64 {
			used[i]++
		}
	}
	for b.Loop() {
		_, err := unix.Write(near, used[:1])
		require.NoError(b, err)
		work()
		_, err = unix.Read(far, used[:1])
		require.NoError(b, err)
		work()
	}
	for name, program := range w.coll.Programs {
		stats, err := program.Stats()
		require.NoError(b, err)
		if stats.RunCount >= uint64(b.N) { // others run beside it
			b.ReportMetric(float64(stats.Runtime.Nanoseconds())/float64(stats.RunCount), name+"-ns/run")
		}
	}
}

// connection returns both ends of one through the loopback device.
func connection(t testing.TB) (near, far int) {
	t.Helper()
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(listener)) }()
	require.NoError(t, unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(listener, 1))
	at, err := unix.Getsockname(listener)
	require.NoError(t, err)
	near, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(near, at))
	far, _, err = unix.Accept(listener)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(near, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	t.Cleanup(func() { require.NoError(t, errors.Join(unix.Close(near), unix.Close(far))) })
	return near, far
}
