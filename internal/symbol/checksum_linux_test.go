// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// withLargeLink makes a program that names its debug file by checksum alone, and that file, extended by a hole to a size.
func withLargeLink(t *testing.T, size int64) (bin, debug string) {
	t.Helper()
	dir := t.TempDir()
	whole := toolchain.CompileC(t, programInlined, "target", "-g", "-O2", "-Wl,--build-id=none")
	bin, debug = filepath.Join(dir, "target"), filepath.Join(dir, "target.debug")
	toolchain.Run(t, "objcopy", "--only-keep-debug", whole, debug)
	toolchain.Run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, whole, bin)
	require.NoError(t, os.Truncate(debug, size))
	return bin, debug
}

// residentPages counts the pages of a file in the page cache.
func residentPages(t *testing.T, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	require.NoError(t, err)
	mem, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(mem) //nolint:errcheck // only read
	pages := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, addressOf(mem), uintptr(len(mem)), addressOf(pages))
	require.Zero(t, errno)
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}

func addressOf(b []byte) uintptr { return uintptr(addressOfBytes(b)) }

// TestLargeChecksum has a program with a large debug file: other programs get their lines meanwhile, it takes a step at a time, and the file
// does not stay in the page cache.
func TestLargeChecksum(t *testing.T) {
	const size = 200 << 20
	large, debug := withLargeLink(t, size)
	other := toolchain.CompileC(t, programInlined, "target", "-g", "-O2")
	p, q := start(t, large), start(t, other)
	var steps, between atomic.Int64
	gate := make(chan struct{}, 1<<20)
	s := newSymbolizer(t, Config{Charge: func(step func()) time.Duration {
		step()
		if steps.Add(1); between.Load() == 0 {
			<-gate // until the other program is requested
		}
		return 0
	}})
	a, b := openSpace(t, s, p.pid()), openSpace(t, s, q.pid())
	waiting := a.Frames(nil, []uint64{p.functions["outer"] + 4})[0]
	for range 20 {
		gate <- struct{}{}
	}
	require.Eventually(t, func() bool { return steps.Load() > 20 }, time.Minute, time.Millisecond)
	f := b.Frames(nil, []uint64{q.functions["outer"] + 4})[0]
	settled := func() bool { return len(f.Settled().Lines) > 1 }
	for !settled() {
		taken := steps.Load()
		require.Less(t, taken, int64(100), "before the checksum is made")
		gate <- struct{}{}
		require.Eventually(t, func() bool { return steps.Load() > taken || settled() }, time.Minute, 100*time.Microsecond)
	}
	between.Store(1)
	gate <- struct{}{}
	require.True(t, s.AwaitLines(time.Minute))
	require.Greater(t, steps.Load(), int64(size>>20), "a step for each MiB")
	require.Empty(t, waiting.Settled().Lines)
	require.Less(t, residentPages(t, debug)*os.Getpagesize(), 16<<20)
	_, err := a.OpenDebug(a.Regions()[0], 32<<20, nil)
	require.ErrorContains(t, err, "more than 33554432: its checksum takes long to compare")
}

// TestTooLargeChecksum uses a file that is not read, and TestChecksumIsStopped ends while it is.
func TestTooLargeChecksum(t *testing.T) {
	bin, debug := withLargeLink(t, 4<<30)
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	require.Empty(t, settledFrame(t, a, p.functions["outer"]+4).Lines)
	require.EqualValues(t, 1, s.Stats().Errors[reason.NameBadDebug])
	require.ErrorContains(t, s.Stats().LastError, debug)
	require.Less(t, residentPages(t, debug)*os.Getpagesize(), 16<<20)
}

func TestChecksumIsStopped(t *testing.T) {
	bin, _ := withLargeLink(t, 500<<20)
	for _, ends := range []string{"process", "symbolizer"} {
		t.Run(ends, func(t *testing.T) {
			p := start(t, bin)
			var steps atomic.Int64
			gate := make(chan struct{}) // however late it is stopped
			open := sync.OnceFunc(func() { close(gate) })
			s := newSymbolizer(t, Config{Charge: func(step func()) time.Duration {
				step()
				if steps.Add(1) > 3 {
					<-gate
				}
				return 10 * time.Millisecond
			}})
			t.Cleanup(open)
			a := openSpace(t, s, p.pid())
			a.Frames(nil, []uint64{p.functions["outer"] + 4})
			require.Eventually(t, func() bool { return steps.Load() > 3 }, time.Minute, time.Millisecond)
			before := time.Now()
			if ends == "process" {
				a.Close()
				open()
				require.True(t, s.AwaitLines(time.Minute))
			} else {
				s.lines.stop() // which Close begins with
				open()
				require.NoError(t, s.Close())
			}
			require.Less(t, time.Since(before), time.Minute)
			require.Less(t, steps.Load(), int64(300))
		})
	}
}
