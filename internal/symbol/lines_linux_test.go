// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const programInlined = `
#include <stdio.h>
#include <unistd.h>
static inline __attribute__((always_inline)) int inner(int x)
{
	asm volatile("imul $3, %0" : "+r"(x));
	return x;
}
static inline __attribute__((always_inline)) int middle(int x)
{
	x += 5;
	return inner(x) ^ 1;
}
__attribute__((noinline)) int outer(int x)
{
	asm volatile("" : "+r"(x));
	return middle(x) + inner(x);
}
int main(void)
{
	volatile int sum = outer(2);
	printf("outer %p\nmain %p\nready\n", (void *)outer, (void *)main);
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0) { }
	return sum == 0;
}
`

// linesOf returns addr2line's functions, files and lines of an address of a file, the innermost first.
func linesOf(t testing.TB, file string, addr uint64) []string {
	t.Helper()
	out, err := exec.Command("addr2line", "-e", file, "-f", "-i", "-C", fmt.Sprintf("%#x", addr)).Output()
	require.NoError(t, err)
	var lines []string
	text := bufio.NewScanner(strings.NewReader(string(out)))
	for text.Scan() {
		name := text.Text()
		require.True(t, text.Scan())
		at, _, _ := strings.Cut(text.Text(), " (")
		file, line, _ := strings.Cut(at, ":")
		lines = append(lines, fmt.Sprint(name, " ", path.Clean(file), " ", line))
	}
	return lines
}

func linesOfFrame(f *model.Frame) []string {
	var lines []string
	for _, l := range f.Lines {
		lines = append(lines, l.Function.Name+" "+l.Function.Filename+" "+strconv.FormatInt(l.Line, 10))
	}
	return lines
}

// TestLines compares each address of a function with addr2line.
func TestLines(t *testing.T) {
	toolchain.Need(t, "addr2line")
	bin := toolchain.CompileC(t, programInlined, "target", "-g", "-O2")
	symbols := symbolsOf(t, bin)
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	seen := map[int]int{}
	functions := map[string]*model.Function{}
	for off := range uint64(24) {
		f := settledFrame(t, a, p.functions["outer"]+off)
		want := linesOf(t, bin, symbols["outer"]+off)
		if strings.Contains(want[0], "??") {
			continue
		}
		require.Equal(t, want, linesOfFrame(f), "%#x", f.Address)
		require.Equal(t, symbols["outer"]+off, f.Address)
		seen[len(f.Lines)]++
		for _, l := range f.Lines {
			if known := functions[l.Function.Name]; known != nil {
				require.Same(t, known, l.Function)
			}
			functions[l.Function.Name] = l.Function
		}
	}
	require.Len(t, seen, 3, "code of outer, of middle in it, and of inner in both: %v", seen)
	require.EqualValues(t, 4, functions["inner"].StartLine)
	require.EqualValues(t, 9, functions["middle"].StartLine)
	require.EqualValues(t, 14, functions["outer"].StartLine)
	require.Empty(t, s.Stats().Errors)
	held := s.Stats()
	forgetTables(t, s)
	require.Positive(t, held.TableBytes)
	require.Zero(t, s.Stats().FrameBytes)
	f := settledFrame(t, a, p.functions["outer"]+8)
	require.Equal(t, linesOf(t, bin, f.Address), linesOfFrame(f), "made again")
}

// settledFrame returns the frame of an address with its lines.
func settledFrame(t testing.TB, a *AddressSpace, addr uint64) *model.Frame {
	t.Helper()
	f := a.Frames(nil, []uint64{addr})[0]
	require.True(t, a.s.AwaitLines(time.Minute), "%#x", addr)
	if again := a.Frames(nil, []uint64{addr})[0]; again.Settled() != f.Settled() {
		t.Errorf("%#x is another frame when it is asked for again", addr)
	}
	return f.Settled()
}

// forgetTables drops all tables and frames, as when memory is short.
func forgetTables(t testing.TB, s *Symbolizer) {
	t.Helper()
	s.mu.Lock()
	for b := range s.all {
		if b.tableBytes() > 0 {
			s.dropTables(b)
		}
		s.resetFrames(b)
	}
	memory := s.memory
	s.memory = 0
	s.lines.giveWay()
	s.mu.Unlock()
	require.Eventually(t, func() bool { return s.Stats().TableBytes == 0 }, time.Minute, time.Millisecond)
	s.mu.Lock()
	s.memory = memory
	s.mu.Unlock()
}

// TestSeparateFiles strips a program: its debug file is in the same folder, in a folder for build ids, or there is only .gnu_debugdata.
func TestSeparateFiles(t *testing.T) {
	toolchain.Need(t, "addr2line")
	whole := toolchain.CompileC(t, strings.Replace(programInlined, "__attribute__((noinline)) int outer", "__attribute__((noinline)) static int outer", 1), "target", "-g", "-O2")
	addr := symbolsOf(t, whole)["outer"]
	want := linesOf(t, whole, addr+4)
	for _, kind := range []string{"separate", "mini", "none"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			bin := dir + "/target"
			switch kind {
			case "separate":
				toolchain.Run(t, "objcopy", "--only-keep-debug", whole, bin+".debug")
				toolchain.Run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+bin+".debug", whole, bin)
			case "mini":
				toolchain.Run(t, "objcopy", "--only-keep-debug", whole, bin+".mini")
				toolchain.Run(t, "strip", "-g", bin+".mini")
				toolchain.Run(t, "xz", "-k", bin+".mini")
				toolchain.Run(t, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata="+bin+".mini.xz", whole, bin)
			default:
				toolchain.Run(t, "objcopy", "--strip-all", whole, bin)
			}
			p := start(t, bin)
			s := newSymbolizer(t, Config{})
			a := openSpace(t, s, p.pid())
			f := settledFrame(t, a, p.functions["outer"]+4)
			file, errDebug := a.OpenDebug(a.Regions()[0], 32<<20, nil)
			switch kind {
			case "separate":
				require.Equal(t, want, linesOfFrame(f))
				require.NoError(t, errDebug)
				require.NoError(t, file.Close())
				require.Equal(t, 2, openBelowDir(t, dir))
				a.Close()
				require.Eventually(t, func() bool { return openBelowDir(t, dir) == 0 }, time.Minute, time.Millisecond,
					"neither the program nor its debug file is held open")
				require.Empty(t, s.Stats().Errors)
				b := openSpace(t, s, p.pid())
				require.Same(t, f, b.Frames(nil, []uint64{p.functions["outer"] + 4})[0])
				again := settledFrame(t, b, p.functions["outer"]+5)
				require.Equal(t, linesOf(t, whole, addr+5), linesOfFrame(again))
			case "mini":
				require.Equal(t, "outer", functionOf(f))
				require.ErrorIs(t, errDebug, debuginfo.ErrNone)
			default:
				require.Empty(t, f.Lines)
			}
		})
	}
}

// openBelowDir counts the files below a folder that this process has open.
func openBelowDir(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// TestLinesCache takes the lines of a second symbolizer from the cache that the first one wrote: the debug file was removed before.
func TestLinesCache(t *testing.T) {
	toolchain.Need(t, "objcopy")
	whole := toolchain.CompileC(t, programInlined, "target", "-g", "-O2", "-Wl,--build-id")
	dir, cache := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(cache, 0o700))
	bin := dir + "/target"
	toolchain.Run(t, "objcopy", "--only-keep-debug", whole, bin+".debug")
	toolchain.Run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+bin+".debug", whole, bin)
	p := start(t, bin)
	want := linesOf(t, whole, symbolsOf(t, whole)["outer"]+4)
	for _, when := range []string{"first", "cached"} {
		s := newSymbolizer(t, Config{CacheDir: cache, CacheBytes: 1 << 20})
		a := openSpace(t, s, p.pid())
		f := settledFrame(t, a, p.functions["outer"]+4)
		require.Equal(t, want, linesOfFrame(f), when)
		require.Empty(t, s.Stats().Errors)
		require.NoError(t, s.Close())
		files, err := filepath.Glob(cache + "/*")
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.Regexp(t, "^"+cache+"/"+f.Mapping.BuildID.GNU+"-"+f.Mapping.BuildID.HTLHash+"-[0-9a-f]{16}\\.lines$", files[0])
		require.NoError(t, os.RemoveAll(bin+".debug"))
	}
	require.NoError(t, os.Chmod(cache, 0o777)) //nolint:gosec // the point of the test
	_, err := New(Config{CacheDir: cache, CacheBytes: 1 << 20})
	require.ErrorContains(t, err, cache)
}
