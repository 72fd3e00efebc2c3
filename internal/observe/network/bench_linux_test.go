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

// BenchmarkTransfer measures the programs that run when bytes are sent or received, by the kernel's own statistics, of which some 40 ns are
// the statistics themselves: for one byte, and for requests and responses whose beginnings are captured. One thread has both ends of a
// connection. Between its calls it writes to enough memory to evict most of the CPU's first cache, as programs do that have something to
// send.
func BenchmarkTransfer(b *testing.B) {
	b.Run("bytes", func(b *testing.B) { transfers(b, config(), []byte("x"), []byte("y")) })
	b.Run("requests", func(b *testing.B) {
		transfers(b, requestConfig(), []byte("GET /users/17 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"),
			[]byte("HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"))
	})
}

// transfers makes one end send a request and the other one a response.
func transfers(b *testing.B, config Config, asked, answered []byte) {
	w := observing(b, config, nil)
	defer func() { require.NoError(b, w.end()) }()
	require.NoError(b, w.tracker.Decide(uint32(os.Getpid()), lifecycle.ScopeNetwork))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	near, far := connection(b)
	statistics, err := kernel.EnableRunStats()
	require.NoError(b, err)
	defer func() { require.NoError(b, statistics.Close()) }()
	var used [128 << 10]byte
	var read [512]byte
	work := func() {
		for i := 0; i < len(used); i += 64 {
			used[i]++
		}
	}
	for b.Loop() {
		for _, move := range [...]struct {
			from, to int
			text     []byte
		}{{near, far, asked}, {far, near, answered}} {
			_, err := unix.Write(move.from, move.text)
			require.NoError(b, err)
			work()
			n, err := unix.Read(move.to, read[:])
			require.NoError(b, err)
			require.Equal(b, len(move.text), n)
			work()
		}
	}
	for name, program := range w.coll.Programs {
		stats, err := program.Stats()
		require.NoError(b, err)
		if stats.RunCount >= uint64(b.N) { // other programs run as well
			b.ReportMetric(float64(stats.Runtime.Nanoseconds())/float64(stats.RunCount), name+"-ns/run")
		}
	}
}

// connection returns both ends of a connection through the loopback device.
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
