// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const programGo = `package main

import (
	"fmt"
	"os"
	"reflect"
)

//go:noinline
func alpha(x int) int { // line 10
	return x * 3
}

type Basket struct{ n int }

//go:noinline
func (b *Basket) Add(x int) { // line 17
	b.n += x
}

//go:noinline
func generic[T int | float64](x T) T { return x + x }

func main() {
	b := &Basket{}
	b.Add(alpha(2))
	fmt.Println("main.alpha", fmt.Sprintf("%x", reflect.ValueOf(alpha).Pointer()))
	fmt.Println("main.(*Basket).Add", fmt.Sprintf("%x", reflect.ValueOf((*Basket).Add).Pointer()))
	fmt.Println("main.main", fmt.Sprintf("%x", reflect.ValueOf(main).Pointer()))
	fmt.Println("fmt.Println", fmt.Sprintf("%x", reflect.ValueOf(fmt.Println).Pointer()))
	_ = generic(1)
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
}
`

func TestGo(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":        nil,
		"stripped":     {"-ldflags=-s -w"},
		"pie":          {"-buildmode=pie"},
		"pie-stripped": {"-buildmode=pie", "-ldflags=-s -w"},
		"trimpath":     {"-trimpath", "-ldflags=-s -w"},
		"no-sections":  {"-ldflags=-s -w"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := toolchain.CompileGo(t, programGo, flags...)
			if name == "no-sections" {
				dropSections(t, bin)
			}
			checkGo(t, bin, name == "trimpath")
		})
	}
}

func checkGo(t *testing.T, bin string, trimmed bool) {
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	for function, addr := range p.functions {
		f := a.Frames(nil, []uint64{addr})[0]
		require.Equal(t, function, functionOf(f), s.Stats().LastError)
		require.Equal(t, model.FrameGo, f.Type)
		require.NotEmpty(t, f.Mapping.BuildID.Go)
	}
	source := filepath.Dir(bin) + "/main.go"
	if trimmed {
		source = "example.org/target/main.go"
	}
	f := a.Frames(nil, []uint64{p.functions["main.alpha"]})[0]
	require.Equal(t, &model.Function{Name: "main.alpha", SystemName: "main.alpha", Filename: source, StartLine: 10}, f.Lines[0].Function)
	require.Contains(t, []int64{10, 11}, f.Lines[0].Line)
	f = a.Frames(nil, []uint64{p.functions["main.(*Basket).Add"]})[0]
	require.EqualValues(t, 17, f.Lines[0].Function.StartLine)
	require.EqualValues(t, 18, f.Lines[0].Line)
	require.Nil(t, s.Stats().LastError)
	require.Equal(t, strings.TrimSpace(toolchain.Run(t, "go", "tool", "buildid", bin)), f.Mapping.BuildID.Go)
}

const programCgo = `package main

/*
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static int c_part(int x) { __asm__ volatile("" : "+r"(x)); return x * 3; }
static void *c_address(void) { return (void *)c_part; }
*/
import "C"
import (
	"fmt"
	"os"
	"reflect"
)

//go:noinline
func alpha(x int) int { return x * 3 }

func main() {
	_ = alpha(int(C.c_part(1)))
	fmt.Println("main.alpha", fmt.Sprintf("%x", reflect.ValueOf(alpha).Pointer()))
	fmt.Println("c_part", fmt.Sprintf("%x", uintptr(C.c_address())))
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
}
`

// TestCgo has C code before Go's in .text, so that the start of Go's text is
// not that of the section.
func TestCgo(t *testing.T) {
	for name, flags := range map[string][]string{
		"external":          {"-ldflags=-linkmode=external"},
		"external-pie":      {"-buildmode=pie", "-ldflags=-linkmode=external"},
		"external-stripped": {"-ldflags=-linkmode=external -s -w"},
		"pie-stripped":      {"-buildmode=pie", "-ldflags=-linkmode=external -s -w"},
		"exported-symbols":  {"-buildmode=pie", "-ldflags=-linkmode=external -s -w -extldflags=-Wl,-z,pack-relative-relocs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CGO_ENABLED", "1")
			p := start(t, toolchain.CompileGo(t, programCgo, flags...))
			s := newSymbolizer(t, Config{})
			a := openSpace(t, s, p.pid())
			f := a.Frames(nil, []uint64{p.functions["main.alpha"]})[0]
			require.Equal(t, "main.alpha", functionOf(f))
			require.Equal(t, model.FrameGo, f.Type)
			f = a.Frames(nil, []uint64{p.functions["c_part"]})[0]
			require.Equal(t, model.FrameNative, f.Type)
			if strings.Contains(name, "stripped") || strings.Contains(name, "symbols") {
				require.Empty(t, f.Lines)
			} else {
				require.Equal(t, "c_part", functionOf(f))
			}
			require.Nil(t, s.Stats().LastError)
		})
	}
}

// TestGoTool compares every function of the go tool with nm, and lines outside inlined calls with addr2line.
func TestGoTool(t *testing.T) {
	bin := toolchain.Go(t)
	s := plainSymbolizer(t, Config{})
	b, r := openFile(t, s, bin)
	var addrs []uint64
	var names []string
	for _, line := range strings.Split(toolchain.Run(t, "go", "tool", "nm", bin), "\n") {
		f := strings.Fields(line)
		if len(f) >= 3 && (f[1] == "T" || f[1] == "t") {
			addr, err := strconv.ParseUint(f[0], 16, 64)
			require.NoError(t, err)
			addrs, names = append(addrs, addr), append(names, strings.Join(f[2:], " "))
		}
	}
	require.Greater(t, len(addrs), 5000)
	byAddr := map[uint64]map[string]bool{}
	for i, addr := range addrs {
		if byAddr[addr] == nil {
			byAddr[addr] = map[string]bool{}
		}
		byAddr[addr][names[i]] = true
	}
	wrong := 0
	for addr, names := range byAddr {
		if names["runtime.text"] || names["runtime.etext"] {
			continue
		}
		e := s.resolve(nil, r, addr)
		got := strings.ReplaceAll(functionOf(&e.frame), "·", ".") // nm's way to write it
		if !names[got] && !names[strings.TrimSuffix(got, ".abi0")] && !names[got+".abi0"] {
			wrong++
			t.Logf("%#x: %q, nm says %v", addr, got, names)
		}
	}
	require.Zero(t, wrong)
	require.NotNil(t, b.golang.table)
	require.Nil(t, b.symbols.table, "the symbol table is not needed where Go's covers all")
}

// TestGoLines compares lines outside inlined calls with those of Go's own tool.
func TestGoLines(t *testing.T) {
	bin := toolchain.CompileGo(t, programGo)
	s := newSymbolizer(t, Config{})
	b, r := openFile(t, s, bin)
	require.NotNil(t, s.goTable(b))
	var addrs []uint64
	for i := range b.golang.table.Len() {
		addrs = append(addrs, b.golang.table.Entry(i))
	}
	checkLines(t, s, r, bin, addrs)
}

// checkLines compares lines in the middle of functions.
func checkLines(t *testing.T, s *Symbolizer, r *region, bin string, addrs []uint64) {
	var in strings.Builder
	var frames []*entry
	for i := 0; i < len(addrs); i += 7 {
		e := s.resolve(nil, r, addrs[i]+7)
		if len(e.frame.Lines) == 1 && e.frame.Lines[0].Line > 0 {
			in.WriteString("0x" + strconv.FormatUint(addrs[i]+7, 16) + "\n")
			frames = append(frames, e)
		}
	}
	cmd := exec.Command("go", "tool", "addr2line", bin)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 2*len(frames), "a name and a position each")
	require.Greater(t, len(frames), 50)
	for i, e := range frames {
		line := e.frame.Lines[0]
		require.Equal(t, line.Function.Filename+":"+strconv.FormatInt(line.Line, 10), lines[2*i+1], lines[2*i])
	}
}

// openFile makes a binary known without a process.
func openFile(t testing.TB, s *Symbolizer, path string) (*binary, *region) {
	t.Helper()
	fd, err := open(path, 0)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	s.mu.Lock()
	ino := s.serial + 1
	s.mu.Unlock()
	fresh, err := newBinary(path, fileKey{ino: ino, size: st.Size()}, &file{fd: fd, dev: disk})
	require.NoError(t, err)
	b := s.register(fresh)
	return b, &region{bin: b, mapping: b.segments[0].mapping}
}

// TestGoInnermost compares addresses all over this program with the runtime's result, which is the innermost function.
func TestGoInnermost(t *testing.T) {
	guest.SameOnEveryKernel(t)
	s := plainSymbolizer(t, Config{})
	exe, err := os.Executable()
	require.NoError(t, err)
	b, r := openFile(t, s, exe)
	require.NotNil(t, s.goTable(b))
	start := uint64(reflect.ValueOf(newSymbolizer).Pointer())
	bias := start - openSpace(t, s, os.Getpid()).Frames(nil, []uint64{start})[0].Address
	inlined, deep := 0, 0
	for i := 0; i < b.golang.table.Len(); i += 3 {
		for addr := b.golang.table.Entry(i); addr < b.golang.table.Entry(i+1); addr += 5 {
			e := s.resolve(nil, r, addr)
			if len(e.frame.Lines) < 2 {
				continue
			}
			// A return address: the frame is of the instruction before.
			f, _ := runtime.CallersFrames([]uintptr{uintptr(addr + bias + 1)}).Next()
			got := linesOfFrame(&e.frame)[0]
			if from, to := strings.IndexByte(got, '['), strings.LastIndexByte(got, ']'); from > 0 && to > from {
				got = got[:from] + "[..." + got[to:] // the runtime leaves out type arguments
			}
			require.Equal(t, fmt.Sprint(f.Function, " ", f.File, " ", f.Line), got, "%#x", addr)
			if inlined++; len(e.frame.Lines) > 2 {
				deep++
			}
		}
	}
	require.Greater(t, inlined, 5000)
	require.Greater(t, deep, 500)
	require.Empty(t, s.Stats().Errors)
}

// TestGoInlined compares whole chains of inlined calls with the debug information that the compiler wrote in addition to Go's tables.
func TestGoInlined(t *testing.T) {
	for name, flags := range map[string][]string{"exe": nil, "pie": {"-buildmode=pie"}} {
		t.Run(name, func(t *testing.T) {
			bin := toolchain.CompileGo(t, programGo, flags...)
			s := plainSymbolizer(t, Config{})
			b, r := openFile(t, s, bin)
			require.NotNil(t, s.goTable(b))
			debug, err := debuginfo.Open(b.image(), debuginfo.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, debug.Close()) }()
			compared, different := 0, 0
			for i := 0; i < b.golang.table.Len(); i += 2 {
				for addr := b.golang.table.Entry(i); addr < b.golang.table.Entry(i+1); addr += 7 {
					e := s.resolve(nil, r, addr)
					lines, err := debug.Lookup(addr, nil)
					require.NoError(t, err)
					if len(e.frame.Lines) < 2 || len(lines) != len(e.frame.Lines) {
						continue
					}
					compared++
					for i, l := range lines {
						got := e.frame.Lines[i]
						if l.Function.Name != got.Function.Name || l.File != got.Function.Filename || int64(l.Line) != got.Line {
							different++
							t.Logf("%#x: %d: %s %s:%d, debug information says %s %s:%d", addr, i, got.Function.Name, got.Function.Filename, got.Line, l.Function.Name, l.File, l.Line)
							break
						}
					}
				}
			}
			t.Logf("%d addresses in inlined calls, %d different", compared, different)
			require.Greater(t, compared, 2000)
			require.Zero(t, different)
		})
	}
}
