// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// gate blocks the reading of lines until it is opened.
type gate chan struct{}

func (g gate) charge(step func()) time.Duration {
	<-g
	step()
	return 0
}

// newGated makes a symbolizer whose reader of lines waits for the gate.
func newGated(t *testing.T) (*Symbolizer, gate) {
	t.Helper()
	g := make(gate)
	s := newSymbolizer(t, Config{Charge: g.charge})
	t.Cleanup(func() {
		select {
		case <-g:
		default:
			close(g) // or Close would wait for ever
		}
	})
	return s, g
}

// TestLinesComeLater checks that naming does not wait for lines, and that a process that has exited when its debug information is read, and
// whose file was removed, gets them nevertheless.
func TestLinesComeLater(t *testing.T) {
	toolchain.Need(t, "addr2line")
	whole := toolchain.CompileC(t, programInlined, "target", "-g", "-O2")
	bin := filepath.Join(t.TempDir(), "target")
	toolchain.Run(t, "cp", whole, bin)
	p, other := start(t, bin), start(t, toolchain.CompileC(t, programC, "target"))
	s, g := newGated(t)
	a, b := openSpace(t, s, p.pid()), openSpace(t, s, other.pid())
	addr := p.functions["outer"] + 4
	f := a.Frames(nil, []uint64{addr})[0]
	require.Equal(t, []string{"outer  0"}, linesOfFrame(f), "what the symbol table says")
	require.Same(t, f, a.Frames(nil, []uint64{addr})[0])
	require.Equal(t, "hidden", nameOf(b, other.functions["hidden"]))
	require.Same(t, f, f.Settled())
	require.False(t, s.AwaitLines(time.Millisecond))
	require.Equal(t, uint64(3), s.Stats().Named)

	require.NoError(t, p.cmd.Process.Kill())
	a.Close()
	require.NoError(t, os.Remove(bin))
	close(g)
	require.True(t, s.AwaitLines(time.Minute))
	require.Equal(t, []string{"outer  0"}, linesOfFrame(f), "a frame that was given out does not change")
	require.Equal(t, linesOf(t, whole, f.Address), linesOfFrame(f.Settled()))
	require.Empty(t, s.Stats().Errors)
	require.Equal(t, uint64(3), s.Stats().Named)
}

// TestLinesCount checks that a frame without a symbol is counted by its final state.
func TestLinesCount(t *testing.T) {
	whole := toolchain.CompileC(t, strings.Replace(programInlined, "__attribute__((noinline)) int outer", "__attribute__((noinline)) static int outer", 1), "target", "-g", "-O2")
	bin := filepath.Join(t.TempDir(), "target")
	toolchain.Run(t, "objcopy", "--only-keep-debug", whole, bin+".debug")
	toolchain.Run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+bin+".debug", whole, bin)
	p := start(t, bin)
	s, g := newGated(t)
	a := openSpace(t, s, p.pid())
	addr := p.functions["outer"] + 4
	a.Frames(nil, []uint64{addr, addr + 1, addr + 1})
	require.Zero(t, s.Stats().Named)
	require.Empty(t, s.Stats().Unnamed)
	close(g)
	require.True(t, s.AwaitLines(time.Minute))
	require.Equal(t, uint64(3), s.Stats().Named)
	require.Empty(t, s.Stats().Unnamed)

	stripped := start(t, func() string { toolchain.Run(t, "objcopy", "--strip-all", whole, bin+"2"); return bin + "2" }())
	c := openSpace(t, s, stripped.pid())
	for range 2 {
		c.Frames(nil, []uint64{stripped.functions["outer"] + 4})
		require.True(t, s.AwaitLines(time.Minute))
	}
	require.Equal(t, uint64(3), s.Stats().Named)
	require.Equal(t, map[reason.Name]uint64{reason.NameNoSymbol: 2}, s.Stats().Unnamed)
}

// TestLinesClosedMeanwhile closes a symbolizer during a read, with more requests waiting.
func TestLinesClosedMeanwhile(t *testing.T) {
	p := start(t, toolchain.CompileC(t, programInlined, "target", "-g", "-O2"))
	begun, release := make(chan struct{}, 10), make(chan struct{})
	s := newSymbolizer(t, Config{Charge: func(step func()) time.Duration {
		begun <- struct{}{}
		<-release
		step()
		return 0
	}})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	a := openSpace(t, s, p.pid())
	addr, files := p.functions["outer"]+4, s.Stats().OpenFiles
	f := a.Frames(nil, []uint64{addr})[0]
	<-begun
	a.Frames(nil, []uint64{addr + 1})
	require.Equal(t, files+2, s.Stats().OpenFiles, "that of each step")
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	free()
	require.NoError(t, <-closed)
	require.Len(t, f.Settled().Lines, 3)
	require.True(t, s.AwaitLines(0), "nothing is waited for")
	require.Zero(t, s.Stats().OpenFiles)
	require.Equal(t, uint64(2), s.Stats().Named)
}

// TestLinesBounded checks that a frame that did not fit into the queue is requested again.
func TestLinesBounded(t *testing.T) {
	p := start(t, toolchain.CompileC(t, programInlined, "target", "-g", "-O2"))
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	addr := p.functions["outer"] + 4
	pretend := func(waiting, files int) {
		s.mu.Lock()
		s.lines.waiting, s.lines.files = waiting, files
		s.mu.Unlock()
	}
	for _, full := range [][2]int{{maxWantedLines, 0}, {0, maxLineFiles}} {
		pretend(full[0], full[1])
		f := a.Frames(nil, []uint64{addr})[0]
		require.Equal(t, []string{"outer  0"}, linesOfFrame(f))
		require.Nil(t, f.Late)
	}
	pretend(0, 0)
	require.Len(t, settledFrame(t, a, addr).Lines, 3)
}

// TestLinesWithinMemory reads debug information that is larger than the memory for it.
func TestLinesWithinMemory(t *testing.T) {
	toolchain.Need(t, "addr2line")
	bin := toolchain.CompileC(t, programInlined, "target", "-g", "-O2")
	p := start(t, bin)
	s := newSymbolizer(t, Config{MemoryBytes: 64 << 10})
	a := openSpace(t, s, p.pid())
	for off := range uint64(8) {
		settledFrame(t, a, p.functions["outer"]+off)
		require.LessOrEqual(t, s.Stats().TableBytes, int64(48<<10))
	}
}

// TestDamagedLines checks that a file with damaged debug information is logged once, counted each time, and its frames are named by their
// symbols.
func TestDamagedLines(t *testing.T) {
	bin := toolchain.CompileC(t, programInlined, "target", "-g", "-O2", "-gno-as-locview-support")
	file, err := elf.Open(bin)
	require.NoError(t, err)
	abbrev := file.Section(".debug_abbrev")
	require.NoError(t, file.Close())
	content, err := os.ReadFile(bin)
	require.NoError(t, err)
	copy(content[abbrev.Offset:][:abbrev.Size], bytes.Repeat([]byte{0xff}, int(abbrev.Size)))
	require.NoError(t, os.WriteFile(bin, content, 0o700)) //nolint:gosec // a program
	p := start(t, bin)
	core, logs := observer.New(zapcore.WarnLevel)
	s := newSymbolizer(t, Config{Logger: zap.New(core)})
	a := openSpace(t, s, p.pid())
	for off := range uint64(4) {
		require.Equal(t, []string{"outer  0"}, linesOfFrame(settledFrame(t, a, p.functions["outer"]+off)))
	}
	require.Positive(t, s.Stats().Errors[reason.NameBadDebug])
	require.ErrorContains(t, s.Stats().LastError, "reading the debug information of "+bin)
	require.Equal(t, 1, logs.Len())
	require.Contains(t, logs.All()[0].ContextMap()["error"], bin)
}

// programAlias has a function with another public name than in its own file, as glibc has.
const programAlias = `
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline, visibility("hidden"))) int __GI_work(int x) { asm volatile("" : "+r"(x)); return x * 3; }
extern __typeof(__GI_work) work __attribute__((alias("__GI_work")));
__attribute__((noinline)) static int secret(int x) { asm volatile("" : "+r"(x)); return x * 5; }
int main(void)
{
	volatile int sum = __GI_work(2) + secret(3);
	printf("work %p\nsecret %p\nready\n", (void *)work, (void *)secret);
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0) { }
	return sum == 0;
}
`

// TestPublicAlias checks that a function has its public name, from the dynamic symbols, with its lines.
func TestPublicAlias(t *testing.T) {
	whole := toolchain.CompileC(t, programAlias, "target", "-g", "-O1", "-rdynamic")
	bin := filepath.Join(t.TempDir(), "target")
	toolchain.Run(t, "objcopy", "--only-keep-debug", whole, bin+".debug")
	toolchain.Run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+bin+".debug", whole, bin)
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	for _, function := range []string{"work", "secret"} {
		f := settledFrame(t, a, p.functions[function]+1)
		require.Equal(t, function, functionOf(f))
		require.Positive(t, f.Lines[0].Line)
	}
}

// TestAlias checks the rules of names one by one.
func TestAlias(t *testing.T) {
	other := &debuginfo.Function{Name: "other"}
	for _, c := range []struct {
		own, symbol string
		there       *debuginfo.Function // at the symbol; nil: the function itself
		want        string
	}{
		{"__GI_read", "read", nil, "read"},
		{"__GI_read", "read@@GLIBC_2.2.5", nil, "read@@GLIBC_2.2.5"},
		{"__GI_read", "", nil, "__GI_read"},
		{"__GI_read", "start", other, "__GI_read"}, // a label that reaches into what follows
		{"read", "read", nil, "read"},
		{"read", "read.cold", nil, "read"},
		{"read", "read.constprop.0", nil, "read"},
		{"_ZN1SC4Ev", "_ZN1SC1Ev", nil, "_ZN1SC1Ev"},
	} {
		f := &debuginfo.Function{Name: "x", Linkage: c.own, File: "a.c", Line: 3}
		there := c.there
		if there == nil {
			there = f
		}
		got := alias(f, c.symbol, func() *debuginfo.Function { return there })
		require.Equal(t, &debuginfo.Function{Name: "x", Linkage: c.want, File: "a.c", Line: 3}, got, "%s %s", c.own, c.symbol)
	}
	require.Equal(t, &debuginfo.Function{Linkage: "memcpy"}, alias(nil, "memcpy", nil), "code of an assembler")
	require.Nil(t, alias(nil, "", nil))
}
