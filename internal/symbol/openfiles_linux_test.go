// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

// TestNamesWhileFilesAreOpen has a process end right after its map was read, while as many files are open as may be. Its program was known
// before: it has names all the same, and the user is charged with nothing.
func TestNamesWhileFilesAreOpen(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	s := newSymbolizer(t, Config{MapsShare: 1})
	p := start(t, bin)
	a, err := s.Open(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	a.Close() // known, and not mapped by a process that is observed
	// Another one has as many files, and the same libraries.
	other := start(t, toolchain.CompileC(t, programC, "other"))
	openSpace(t, s, other.pid())
	s.mu.Lock()
	require.Greater(t, s.open, 1)
	s.maxOpen = s.open
	s.mu.Unlock()
	s.maps = budget.New(1, budget.MapsAtOnce)

	q := start(t, bin)
	b := openSpace(t, s, q.pid())
	kill(t, q)
	require.Equal(t, "hidden", nameOf(b, q.functions["hidden"]))
	require.Zero(t, s.maps.Users())
	s.mu.Lock()
	require.LessOrEqual(t, s.open, s.maxOpen)
	s.mu.Unlock()
}

// TestFilesMappedLastStayOpen maps more files than may be open: those of a process that was read last stay open, though no name was read from
// them yet, and those that were not needed for longest are closed.
func TestFilesMappedLastStayOpen(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	content, err := os.ReadFile(bin)
	require.NoError(t, err)
	s := newSymbolizer(t, Config{})
	s.mu.Lock()
	s.maxOpen = 24
	s.mu.Unlock()
	mine := openSpace(t, s, os.Getpid())
	for i := range 16 {
		at := mapVersion(t, content, i)
		require.NoError(t, mine.Refresh())
		nameOf(mine, at)
	}
	q := start(t, bin)
	b := openSpace(t, s, q.pid())
	kill(t, q)
	for i := range 12 {
		mapVersion(t, content, 16+i)
	}
	require.NoError(t, mine.Refresh())
	s.mu.Lock()
	require.LessOrEqual(t, s.open, s.maxOpen)
	s.mu.Unlock()
	require.Equal(t, "hidden", nameOf(b, q.functions["hidden"]))
}

// kill ends a program, and waits until its memory map cannot be read.
func kill(t *testing.T, p target) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	require.Eventually(t, func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid()) + "/maps")
		return err != nil || len(text) == 0
	}, time.Minute, time.Millisecond)
}

// mapVersion maps a new file with the content, and a number after it, and returns an address of its code.
func mapVersion(t *testing.T, content []byte, number int) uint64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "version")
	content = append(append([]byte(nil), content...), byte(number))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	code, err := unix.Mmap(fd, 0, len(content), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(code)) })
	return addressOfBytes(code) + 0x1100
}
