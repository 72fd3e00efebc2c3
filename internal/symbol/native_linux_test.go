// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const programC = `
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int visible(int x) { asm volatile("" : "+r"(x)); return x * 3; }
__attribute__((noinline)) static int hidden(int x) { asm volatile("" : "+r"(x)); return x * 5 + visible(x); }
__attribute__((noinline, alias("visible"))) int __alias_of_visible(int x);
int main(void) {
	volatile int sum = hidden(1) + visible(2);
	printf("visible %p\nhidden %p\nmain %p\n", (void *)visible, (void *)hidden, (void *)main);
	printf("ready\n");
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0) { }
	return sum == 0;
}
`

func TestNativeLayouts(t *testing.T) {
	for name, flags := range map[string][]string{
		"pie":         {"-pie", "-fPIE"},
		"no-pie":      {"-no-pie"},
		"static":      {"-static"},
		"static-pie":  {"-static-pie"},
		"no-build-id": {"-Wl,--build-id=none"},
		"separate":    {"-Wl,-z,separate-code"},
		"joined":      {"-Wl,-z,noseparate-code"},
		"far-base":    {"-no-pie", "-Wl,-Ttext-segment=0x70000000"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := toolchain.CompileC(t, programC, "target", flags...)
			want := symbolsOf(t, bin)
			p := start(t, bin)
			s := newSymbolizer(t, Config{})
			a := openSpace(t, s, p.pid())
			require.Zero(t, s.Stats().TablesBuilt, "tables are built when they are needed")
			for function, addr := range p.functions {
				f := a.Frames(nil, []uint64{addr, addr + 1, addr + 4})
				require.Equal(t, function, functionOf(f[0]), "exact")
				require.Equal(t, want[function], f[0].Address)
				require.Same(t, f[0], f[1], "a return address counts less one")
				require.Equal(t, want[function]+3, f[2].Address)
				require.Same(t, f[0].Lines[0].Function, f[2].Lines[0].Function)
				require.Equal(t, model.FrameNative, f[0].Type)
				require.Equal(t, bin, f[0].Mapping.Path)
				require.Same(t, f[0].Mapping, f[2].Mapping)
				require.LessOrEqual(t, f[0].Mapping.Start, f[0].Address)
				require.Greater(t, f[0].Mapping.Limit, f[0].Address)
				require.Len(t, f[0].Mapping.BuildID.HTLHash, 32)
				if name == "no-build-id" {
					require.Empty(t, f[0].Mapping.BuildID.GNU)
				} else {
					require.Contains(t, toolchain.Run(t, "readelf", "-n", bin), f[0].Mapping.BuildID.GNU)
					require.Len(t, f[0].Mapping.BuildID.GNU, 40)
				}
			}
			require.EqualValues(t, 9, s.Stats().Named)
			require.EqualValues(t, 1, s.Stats().TablesBuilt)
		})
	}
}

func TestStripped(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target", "-rdynamic")
	want := symbolsOf(t, bin)
	toolchain.Run(t, "strip", bin)
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	require.Equal(t, "visible", nameOf(a, p.functions["visible"]), "from .dynsym")
	require.Equal(t, "main", nameOf(a, p.functions["main"]))
	f := a.Frames(nil, []uint64{p.functions["hidden"]})[0]
	require.Empty(t, f.Lines)
	require.Equal(t, want["hidden"], f.Address)
	require.NotNil(t, f.Mapping)
	require.True(t, s.AwaitLines(time.Minute))
	require.Equal(t, map[reason.Name]uint64{reason.NameNoSymbol: 1}, s.Stats().Unnamed)
}

// dropSections sets the header's number of section headers to zero.
func dropSections(t *testing.T, bin string) {
	t.Helper()
	b, err := os.ReadFile(bin)
	require.NoError(t, err)
	copy(b[40:48], make([]byte, 8)) // e_shoff
	copy(b[60:64], make([]byte, 4)) // e_shnum, e_shstrndx
	require.NoError(t, os.WriteFile(bin, b, 0o700))
}

// TestNoSections cuts the section headers off: symbols and the Go table are found by the segments then.
func TestNoSections(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target", "-rdynamic", "-Wl,--hash-style=gnu")
	dropSections(t, bin)
	p := start(t, bin)
	a := openSpace(t, newSymbolizer(t, Config{}), p.pid())
	require.Equal(t, "visible", nameOf(a, p.functions["visible"]))
	require.Equal(t, "main", nameOf(a, p.functions["main"]))
	require.Empty(t, nameOf(a, p.functions["hidden"]))
}

func TestCPlusPlus(t *testing.T) {
	bin := toolchain.CompileC(t, `
#include <cstdio>
#include <unistd.h>
namespace shop { struct Cart {
	template <typename T> __attribute__((noinline)) T add(T x) { asm volatile("" : "+r"(x)); return x + 1; }
	__attribute__((noinline)) static int total(int x) { asm volatile("" : "+r"(x)); return x * 2; }
}; }
int main() {
	shop::Cart c; volatile long sum = c.add<long>(4) + shop::Cart::total(2);
	long (shop::Cart::*p)(long) = &shop::Cart::add<long>;
	printf("total %p\nadd %p\nready\n", (void *)&shop::Cart::total, *(void **)&p);
	fflush(stdout);
	char x; while (read(0, &x, 1) > 0) { }
	return sum == 0;
}`, "target++")
	p := start(t, bin)
	a := openSpace(t, newSymbolizer(t, Config{}), p.pid())
	f := a.Frames(nil, []uint64{p.functions["total"]})[0]
	require.Equal(t, "shop::Cart::total", functionOf(f))
	require.Equal(t, "_ZN4shop4Cart5totalEi", f.Lines[0].Function.SystemName)
	require.Equal(t, model.FrameNative, f.Type)
	require.Equal(t, "shop::Cart::add<long>", nameOf(a, p.functions["add"]))
}

func TestRust(t *testing.T) {
	for _, mangling := range []string{"legacy", "v0"} {
		t.Run(mangling, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/main.rs", []byte(`
use std::io::Read;
mod shop { #[inline(never)] pub fn total(x: u64) -> u64 { std::hint::black_box(x) * 7 } }
fn main() {
    std::hint::black_box(shop::total(3));
    println!("total {:p}", shop::total as *const ());
    println!("ready");
    let mut b = [0u8; 1];
    while std::io::stdin().read(&mut b).unwrap() > 0 {}
}`), 0o600))
			args := []string{"-O", "-o", dir + "/target", dir + "/main.rs", "-C", "symbol-mangling-version=" + mangling}
			if mangling == "legacy" {
				args = append(args, "-Z", "unstable-options")
				t.Setenv("RUSTC_BOOTSTRAP", "1")
			}
			toolchain.Run(t, "rustc", args...)
			p := start(t, dir+"/target")
			a := openSpace(t, newSymbolizer(t, Config{}), p.pid())
			f := a.Frames(nil, []uint64{p.functions["total"]})[0]
			require.Equal(t, "main::shop::total", strings.TrimPrefix(functionOf(f), "<"))
			require.Equal(t, model.FrameRust, f.Type)
		})
	}
}

// Test32Bit reads a 32-bit program, which need not run here.
func Test32Bit(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs the compiler of amd64, which makes 32-bit code too")
	}
	bin := toolchain.CompileC(t, `
__attribute__((noinline)) int visible(int x) { asm volatile("" : "+r"(x)); return x * 3; }
void _start(void) { volatile int x = visible(2); for (;;) x++; }
`, "target", "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie")
	s := plainSymbolizer(t, Config{})
	_, r := openFile(t, s, bin)
	for _, name := range []string{"visible", "_start"} {
		addr := symbolsOf(t, bin)[name]
		require.NotZero(t, addr)
		e := s.resolve(nil, r, addr+1)
		require.Equal(t, name, functionOf(&e.frame))
	}
	require.Len(t, r.mapping.BuildID.GNU, 40)
}
