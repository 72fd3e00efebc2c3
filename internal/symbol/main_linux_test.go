// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

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
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.Zero(t, s.Stats().OpenFiles)
	})
	return s
}

// plainSymbolizer makes one that names by symbols alone: nobody else works on it, so that a test may look into it.
func plainSymbolizer(t testing.TB, cfg Config) *Symbolizer {
	t.Helper()
	s := newSymbolizer(t, cfg)
	reader := s.lines
	s.lines = nil
	require.NoError(t, reader.close())
	return s
}

func openSpace(t testing.TB, s *Symbolizer, pid int) *AddressSpace {
	t.Helper()
	a, err := s.Open(model.ProcessID{PID: uint32(pid)})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// needTool skips a test in the guests of the kernel matrix, which have no compilers: what it tests does not depend on
// the kernel's version and is tested on the host. Anywhere else a missing tool fails the test.
func needTool(t testing.TB, name string) {
	t.Helper()
	if !guest.Running() {
		return
	}
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("the guest has no %s to make the test's program with", name)
	}
}

// run executes a tool and gives its output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	needTool(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// goTool is the path of the go command, a large Go binary with symbols.
func goTool(t testing.TB) string {
	t.Helper()
	return filepath.Join(strings.TrimSpace(run(t, "go", "env", "GOROOT")), "bin", "go")
}

// compileC writes source to a file and compiles it.
func compileC(t testing.TB, source, name string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "main.c")
	compiler := "gcc"
	if strings.HasSuffix(name, "++") {
		src, compiler = filepath.Join(dir, "main.cc"), "g++"
	}
	require.NoError(t, os.WriteFile(src, []byte(source), 0o600))
	bin := filepath.Join(dir, strings.TrimSuffix(name, "++"))
	run(t, compiler, append([]string{"-O1", "-o", bin, src}, flags...)...)
	return bin
}

// compileGo builds a program from one file.
func compileGo(t testing.TB, source string, flags ...string) string {
	t.Helper()
	needTool(t, "go")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/target\n\ngo 1.25.0\n"), 0o600))
	bin := filepath.Join(dir, "target")
	cmd := exec.Command("go", append(append([]string{"build", "-o", bin}, flags...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "go build: %s", out)
	return bin
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
