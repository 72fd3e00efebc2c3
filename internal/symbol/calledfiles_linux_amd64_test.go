// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// listed is one instruction of a disassembly.
type listed struct {
	addr uint64
	text string
}

// listing returns the instructions of a function of a C or a Go program.
func listing(t testing.TB, bin, function string, golang bool) []listed {
	t.Helper()
	line := regexp.MustCompile(`^ *([0-9a-f]+):\t(.*)$`)
	text := ""
	if golang {
		line = regexp.MustCompile(`^  \S+\t+0x([0-9a-f]+)\t+[0-9a-f]+\t+(.*?)\s*$`)
		text = toolchain.Run(t, "go", "tool", "objdump", "-s", "^"+regexp.QuoteMeta(function)+"$", bin)
	} else {
		text = disassembly(t, bin, function)
	}
	var out []listed
	for _, l := range strings.Split(text, "\n") {
		if m := line.FindStringSubmatch(l); m != nil {
			addr, err := strconv.ParseUint(m[1], 16, 64)
			require.NoError(t, err, l)
			out = append(out, listed{addr, m[2]})
		}
	}
	require.Greater(t, len(out), 1, text)
	return out
}

// returnsTo returns the addresses after the calls of a function in a listing.
func returnsTo(t testing.TB, code []listed, function string) []uint64 {
	t.Helper()
	var out []uint64
	for i, l := range code[:len(code)-1] {
		if strings.HasPrefix(strings.ToLower(l.text), "call") && strings.Contains(l.text, function) {
			out = append(out, code[i+1].addr)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// programLeaf has a leaf that main calls.
const programLeaf = `
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline, noclone, noipa)) int visible(int x) { asm volatile("" : "+r"(x)); return x * 3; }
int main(void) {
	volatile int sum = visible(1) + visible(2);
	printf("main %p\nready\n", (void *)main);
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0) { }
	return sum == 0;
}
`

// visibleTarget returns a running program with a leaf, the leaf's addresses, and where main calls it.
func visibleTarget(t testing.TB) (p target, pcs, rets []uint64) {
	t.Helper()
	bin := toolchain.CompileC(t, programLeaf, "target", "-fno-omit-frame-pointer", "-O2")
	p = start(t, bin)
	bias := p.functions["main"] - symbolsOf(t, bin)["main"]
	for _, l := range listing(t, bin, "visible", false) {
		if strings.HasPrefix(l.text, "nop") || l.text == "" {
			continue
		}
		pcs = append(pcs, l.addr+bias)
	}
	for _, r := range returnsTo(t, listing(t, bin, "main", false), "<visible>") {
		rets = append(rets, r+bias)
	}
	require.NoError(t, os.Remove(bin))
	return p, pcs, rets
}

// TestCalledDeleted uses a program whose file was removed.
func TestCalledDeleted(t *testing.T) {
	p, pcs, rets := visibleTarget(t)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	for _, pc := range pcs {
		for _, ret := range rets {
			require.True(t, a.Called(pc, ret))
			require.Equal(t, "main", functionOf(a.Frames(nil, []uint64{pc, ret})[1]))
			for _, other := range []uint64{0, 1, ret - 1, ret + 1, p.functions["main"], 0x1234, ^uint64(0)} {
				require.False(t, a.Called(pc, other), "%#x", other)
				require.False(t, a.Called(other, ret), "%#x", other)
			}
			require.False(t, a.Called(pc, pc))
		}
	}
	require.Nil(t, s.Stats().LastError)
	require.Positive(t, s.found.bytes())
	checkAccounts(t, s)
	a.Close()
	require.False(t, a.Called(pcs[0], rets[0]), "closed")
}

// TestCalledStripped has no symbols, so that the result is false.
func TestCalledStripped(t *testing.T) {
	bin := toolchain.CompileC(t, programLeaf, "target", "-O2", "-fno-omit-frame-pointer")
	code, rets := listing(t, bin, "visible", false), returnsTo(t, listing(t, bin, "main", false), "<visible>")
	at := symbolsOf(t, bin)["main"]
	toolchain.Run(t, "strip", bin)
	p := start(t, bin)
	bias := p.functions["main"] - at
	a := openSpace(t, newSymbolizer(t, Config{}), p.pid())
	require.False(t, a.Called(code[0].addr+bias, rets[0]+bias))
}

// TestCalledExited checks that the file of an exited process is reported once.
func TestCalledExited(t *testing.T) {
	p, pcs, rets := visibleTarget(t)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	require.NoError(t, p.cmd.Process.Kill())
	require.Eventually(t, func() bool { return proctest.HasEnded(p.pid()) }, time.Minute, 5*time.Millisecond)
	for b := range s.all {
		s.closeFile(b)
	}
	require.False(t, a.Called(pcs[0], rets[0]))
	require.False(t, a.Called(pcs[0], rets[0]))
	require.Equal(t, map[reason.Name]uint64{reason.NameProcessExited: 1}, s.Stats().Errors)
}

// TestFindingsBound checks that the cache of findings stays within its bound and correct.
func TestFindingsBound(t *testing.T) {
	c := newFindings(defaultMemory)
	require.Zero(t, c.bytes())
	for i := range uint64(100000) {
		k := about{owner: i % 7, address: i, role: roleSite}
		c.put(k, 1, i)
		require.Equal(t, i, c.get(k).addr)
		require.Nil(t, c.get(about{owner: i % 7, address: i, role: roleLeaf}))
	}
	require.LessOrEqual(t, c.bytes(), int64(defaultMemory/256))
	tiny := newFindings(0)
	tiny.put(about{role: roleLeaf}, 0, 0)
	require.EqualValues(t, minFindings*findingBytes, tiny.bytes())
}

const leavesGo = `package main

import (
	"fmt"
	"os"
)

//go:noinline
func leaf(n int) int {
	x := n
	for i := range n {
		x = x*31 + i
	}
	return x
}

//go:noinline
func framed(n int) int {
	var a [64]int
	for i := range a {
		a[i] = leaf(n + i)
	}
	return a[n]
}

func main() {
	f := leaf
	if len(os.Args) > 1 {
		f = framed
	}
	fmt.Printf("sum %x\n", leaf(3)+framed(4)+f(5))
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
}
`

func TestCalledGo(t *testing.T) {
	bin := toolchain.CompileGo(t, leavesGo, "-ldflags=-s=false")
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	code := listing(t, bin, "main.main", true)
	ret := returnsTo(t, code, "main.leaf(SB)")[0]
	for _, l := range listing(t, bin, "main.leaf", true) {
		if strings.HasPrefix(l.text, "INT $0x3") {
			break // between functions
		}
		require.True(t, a.Called(l.addr, ret), l.text)
		require.False(t, a.Called(l.addr, ret+1), l.text)
	}
	ret = returnsTo(t, code, "main.framed(SB)")[0]
	bare := true
	framed := listing(t, bin, "main.framed", true)
	require.True(t, slices.ContainsFunc(framed, func(l listed) bool { return l.text == "PUSHQ BP" }))
	for _, l := range framed {
		require.Equal(t, bare, a.Called(l.addr, ret), l.text)
		switch l.text { // the table knows epilogues too
		case "PUSHQ BP":
			bare = false
		case "POPQ BP":
			bare = true
		}
		if l.text == "RET" {
			break
		}
	}
	require.Nil(t, s.Stats().LastError)
}

func BenchmarkCalledWarm(b *testing.B) {
	p, pcs, rets := visibleTarget(b)
	a := openSpace(b, newSymbolizer(b, Config{}), p.pid())
	require.True(b, a.Called(pcs[0], rets[0]))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.Called(pcs[i%len(pcs)], rets[0])
		i++
	}
}

// BenchmarkCalledFramed is the usual case: the function has a frame.
func BenchmarkCalledFramed(b *testing.B) {
	p, _, rets := visibleTarget(b)
	a := openSpace(b, newSymbolizer(b, Config{}), p.pid())
	pc := p.functions["main"] + 12
	require.False(b, a.Called(pc, rets[0]))
	b.ReportAllocs()
	for b.Loop() {
		a.Called(pc, rets[0])
	}
}

func BenchmarkCalledCold(b *testing.B) {
	p, pcs, rets := visibleTarget(b)
	s := newSymbolizer(b, Config{})
	a := openSpace(b, s, p.pid())
	require.True(b, a.Called(pcs[0], rets[0]))
	b.ReportAllocs()
	for b.Loop() {
		clear(s.found.slots)
		s.found.slots = s.found.slots[:minFindings] // clearing is not measured
		a.Called(pcs[len(pcs)-1], rets[0])
	}
}
