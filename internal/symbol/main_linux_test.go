// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/patience"
)

// remote is a device that may hang, disk one that does not.
const remote, disk = 0x2a, 8 << 8

// TestMain fails when a test leaves a goroutine or a file descriptor behind.
func TestMain(m *testing.M) {
	before := openFiles()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	// The runtime's poller and its probe of pidfd stay open once they are used.
	if after := openFiles(); after > before+3 && code == 0 {
		fmt.Fprintf(os.Stderr, "%d files were open, now %d\n", before, after)
		code = 1
	}
	os.Exit(code)
}

func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(names)
}

func newSymbolizer(t testing.TB, cfg Config) *Symbolizer {
	t.Helper()
	cfg.DebugInfo = true
	s, err := New(cfg)
	require.NoError(t, err)
	s.proc.files = patience.Within(time.Minute) // a thread may stand still for longer than a file system may
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.Zero(t, s.Stats().OpenFiles)
	})
	return s
}

// plainSymbolizer makes one that names by symbols alone: no goroutine works on it, so that a test may read its state.
func plainSymbolizer(t testing.TB, cfg Config) *Symbolizer {
	t.Helper()
	s := newSymbolizer(t, cfg)
	reader, contents := s.lines, s.contents
	s.lines, s.contents = nil, nil
	contents.close()
	require.NoError(t, reader.close())
	return s
}

// heldNow is the memory that a symbolizer holds while goroutines work on it.
func heldNow(s *Symbolizer) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held()
}

func openSpace(t testing.TB, s *Symbolizer, pid int) *AddressSpace {
	t.Helper()
	a, err := s.Open(model.ProcessID{PID: uint32(pid)})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// target is a running program that printed where its functions are.
type target struct {
	cmd       *exec.Cmd
	functions map[string]uint64
}

// start runs a program that prints lines of NAME ADDRESS up to "ready" and
// then waits for the end of its input.
func start(t testing.TB, bin string, args ...string) target {
	t.Helper()
	cmd := exec.Command(bin, args...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("waiting for %s: %v", bin, err)
		}
	})
	p := target{cmd: cmd, functions: map[string]uint64{}}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		name, addr, _ := strings.Cut(lines.Text(), " ")
		p.functions[name], err = strconv.ParseUint(strings.TrimPrefix(addr, "0x"), 16, 64)
		require.NoError(t, err, lines.Text())
	}
	require.NotEmpty(t, p.functions)
	return p
}

func (p target) pid() int { return p.cmd.Process.Pid }

// symbolsOf reads the addresses of a file's functions with debug/elf.
func symbolsOf(t testing.TB, path string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	all, err := f.Symbols()
	if !errors.Is(err, elf.ErrNoSymbols) {
		require.NoError(t, err)
	}
	dynamic, err := f.DynamicSymbols()
	if !errors.Is(err, elf.ErrNoSymbols) {
		require.NoError(t, err)
	}
	out := map[string]uint64{}
	for _, s := range append(all, dynamic...) {
		out[s.Name] = s.Value
	}
	return out
}

// nameOf resolves one exact address.
func nameOf(a *AddressSpace, addr uint64) string { return functionOf(a.Frames(nil, []uint64{addr})[0]) }

func functionOf(f *model.Frame) string {
	if len(f.Lines) == 0 {
		return ""
	}
	return f.Lines[0].Function.Name
}

func addressOfBytes(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
