// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// imageAt opens a file for a test.
func imageAt(t testing.TB, path string) elfimage.Image {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	st, err := f.Stat()
	require.NoError(t, err)
	return elfimage.Image{Src: f, Size: uint64(st.Size())}
}

// need skips a test if a tool is missing.
func need(t testing.TB, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("%s is not installed: %v", tool, err)
	}
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
}

// check compares a table with every row of readelf, at its first and its last address, and at the gaps between functions.
func check(t *testing.T, table *Table, want []truth) {
	t.Helper()
	require.NoError(t, table.Err)
	require.Zero(t, table.Skipped)
	rows, unknown, wrong := 0, 0, 0
	sort.SliceStable(want, func(i, j int) bool { return want[i].start < want[j].start })
	for i, f := range want {
		end := f.end
		if i+1 < len(want) {
			end = min(end, want[i+1].start)
			if f.end < want[i+1].start {
				behind := Rule{}
				if f.signal {
					behind.CFA = CFASignal // of the system call that is its last instruction
				}
				require.Equal(t, behind, table.Lookup(f.end), "behind the function at %#x", f.start)
			}
		}
		for j, r := range f.rows {
			to := end
			if j+1 < len(f.rows) {
				to = min(end, f.rows[j+1].pc)
			}
			if r.pc >= to {
				continue
			}
			rows++
			first, last := table.Lookup(r.pc), table.Lookup(to-1)
			if first.CFA == CFANone {
				unknown++
				t.Logf("%#x: %+v is not known", r.pc, r)
			}
			if !r.agrees(first, f.signal) || first != last {
				wrong++
				if wrong < 20 {
					t.Errorf("%#x..%#x: %v to %v, readelf says %+v", r.pc, to, first, last, r)
				}
			}
		}
	}
	require.Zero(t, wrong)
	require.LessOrEqual(t, unknown, rows/1000)
	require.GreaterOrEqual(t, rows, len(want)/2)
	t.Logf("%d functions, %d rows, %d of them not known", len(want), rows, unknown)
}

// TestSystemFiles compares every row of what is on any system.
func TestSystemFiles(t *testing.T) {
	need(t, "readelf")
	found := 0
	for _, name := range []string{"libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libm.so.6", "ld-linux-x86-64.so.2"} {
		all, err := filepath.Glob("/usr/lib*/" + "x86_64-linux-gnu/" + name)
		require.NoError(t, err)
		if len(all) == 0 {
			all, err = filepath.Glob("/usr/lib64/" + name)
			require.NoError(t, err)
		}
		for _, path := range all {
			t.Run(name, func(t *testing.T) {
				table, err := Build(imageAt(t, path), Limits{})
				require.NoError(t, err)
				require.Equal(t, SourceEhFrame, table.Sources&^SourceAssumed)
				check(t, table, readelf(t, path, ".eh_frame"))
			})
			found++
		}
	}
	if found == 0 {
		t.Skip("none of the libraries of x86-64 is installed")
	}
}

const programC = `
#include <alloca.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
struct wide { char b[64]; } __attribute__((aligned(64)));
__attribute__((noinline)) int leaf(int a) { return a * 3 + 1; }
__attribute__((noinline)) int deep(int n, int *sum) {
	int here[16];
	for (int i = 0; i < 16; i++) here[i] = leaf(n + i);
	*sum += here[n & 15];
	return n ? deep(n - 1, sum) + here[3] : 0;
}
__attribute__((noinline)) int aligned(int n, int *sum) {
	struct wide w;
	memset(&w, n, sizeof w);
	deep(n & 7, sum);
	return w.b[n & 63];
}
__attribute__((noinline)) int dynamic(int n, int *sum) {
	char *p = alloca(n * 16 + 1);
	memset(p, n, n * 16 + 1);
	aligned(p[n], sum);
	return p[n * 16];
}
__attribute__((noinline)) int huge(int n, int *sum) {
	volatile char b[70000];
	b[n] = 1;
	return dynamic(n, sum) + b[n + 1];
}
int main(int argc, char **argv) {
	int sum = 0;
	for (int i = 0; i < 20; i++) huge(i + argc, &sum);
	if (sum == 4711) __builtin_unwind_init();
	printf("%d\n", sum);
	return 0;
}
`

// compiled builds programC and returns its path.
func compiled(t testing.TB, compiler string, flags ...string) string {
	t.Helper()
	need(t, compiler)
	dir := t.TempDir()
	src, out := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	require.NoError(t, os.WriteFile(src, []byte(programC), 0o600))
	run(t, compiler, append(append([]string{"-w", "-o", out}, flags...), src)...)
	return out
}

// compilers returns those that are installed.
func compilers(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, name := range []string{"gcc", "clang-19", "clang"} {
		if _, err := exec.LookPath(name); err == nil {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		t.Skip("no C compiler is installed")
	}
	return out
}

func amd64Only(t testing.TB) {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	if f.Machine != elf.EM_X86_64 {
		t.Skip("the expectations are of x86-64")
	}
}

// TestCompiled compares programs of several compilers and options.
func TestCompiled(t *testing.T) {
	amd64Only(t)
	need(t, "readelf")
	for _, compiler := range compilers(t) {
		for _, flags := range []string{"-O2 -fomit-frame-pointer", "-O2 -fomit-frame-pointer -mavx2 -static", "-O0", "-O2 -fno-omit-frame-pointer -Wl,-z,lazy", "-O3 -fcf-protection=full -Wl,-z,lazy -no-pie"} {
			t.Run(compiler+" "+flags, func(t *testing.T) {
				path := compiled(t, compiler, strings.Fields(flags)...)
				table, err := Build(imageAt(t, path), Limits{})
				require.NoError(t, err)
				check(t, table, readelf(t, path, ".eh_frame"))
			})
		}
	}
}

// TestDebugFrame reads .debug_frame where there is nothing else for the
// program's own functions, plain, compressed and in a file of its own.
func TestDebugFrame(t *testing.T) {
	amd64Only(t)
	need(t, "readelf")
	need(t, "objcopy")
	for _, compiler := range compilers(t) {
		t.Run(compiler, func(t *testing.T) {
			path := compiled(t, compiler, "-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-nostartfiles", "-Wl,-e,main", "-Wl,--build-id")
			want := readelf(t, path, ".debug_frame")
			require.GreaterOrEqual(t, len(want), 6)
			plain, err := Build(imageAt(t, path), Limits{})
			require.NoError(t, err)
			require.NotZero(t, plain.Sources&SourceDebugFrame)
			check(t, plain, want)
			for _, kind := range []string{"zlib", "zstd"} {
				run(t, "objcopy", "--compress-debug-sections="+kind, path, path+"."+kind)
				got, err := Build(imageAt(t, path+"."+kind), Limits{})
				require.NoError(t, err)
				require.Equal(t, plain, got, kind)
			}
			run(t, "objcopy", "--only-keep-debug", path, path+".debug")
			run(t, "objcopy", "--strip-debug", path, path+".stripped")
			got, err := Build(imageAt(t, path+".stripped"), Limits{}, imageAt(t, path+".debug"))
			require.NoError(t, err)
			require.NotZero(t, got.Sources&SourceDebugFile)
			require.Equal(t, plain.Rows, got.Rows)
			check(t, got, want)
		})
	}
}

// TestSparse distinguishes a program that was built without unwind tables from others, though the start-up code of the C library has some.
func TestSparse(t *testing.T) {
	amd64Only(t)
	need(t, "objcopy")
	for _, compiler := range compilers(t) {
		t.Run(compiler, func(t *testing.T) {
			const separate = "-Wl,-z,separate-code"
			plain, err := Build(imageAt(t, compiled(t, compiler, "-O2", separate)), Limits{})
			require.NoError(t, err)
			require.False(t, plain.Sparse(), "%d of %d bytes", plain.Covered, plain.Code)
			path := compiled(t, compiler, "-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--build-id", separate)
			run(t, "objcopy", "--only-keep-debug", path, path+".debug")
			run(t, "objcopy", "--strip-debug", path, path+".stripped")
			alone, err := Build(imageAt(t, path+".stripped"), Limits{})
			require.NoError(t, err)
			require.True(t, alone.Sparse(), "%d of %d bytes", alone.Covered, alone.Code)
			both, err := Build(imageAt(t, path+".stripped"), Limits{}, imageAt(t, path+".debug"))
			require.NoError(t, err)
			require.False(t, both.Sparse(), "%d of %d bytes", both.Covered, both.Code)
		})
	}
}

// TestNoSections finds .eh_frame through the program headers.
func TestNoSections(t *testing.T) {
	amd64Only(t)
	path := compiled(t, compilers(t)[0], "-O2")
	want := readelf(t, path, ".eh_frame")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(b[40:48]) // e_shoff
	require.NoError(t, os.WriteFile(path, b, 0o600))
	got, err := Build(imageAt(t, path), Limits{})
	require.NoError(t, err)
	require.Equal(t, SourceEhFrame, got.Sources)
	check(t, got, want)
}

// TestAssumed checks that code which no format describes has rules: the loader's entry point and stubs of a linker that writes no .eh_frame
// for them.
func TestAssumed(t *testing.T) {
	amd64Only(t)
	loader := "/lib64/ld-linux-x86-64.so.2"
	file, err := elf.Open(loader)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	table, err := Build(imageAt(t, loader), Limits{})
	require.NoError(t, err)
	require.Equal(t, CFAEnd, table.Lookup(file.Entry).CFA)

	path := compiled(t, compilers(t)[0], "-O2", "-Wl,-z,lazy", "-Wl,--no-ld-generated-unwind-info")
	table, err = Build(imageAt(t, path), Limits{})
	require.NoError(t, err)
	file, err = elf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	plt := file.Section(".plt")
	require.Greater(t, plt.Size, uint64(2*stubBytes))
	for at := plt.Addr + stubBytes; at < plt.Addr+plt.Size; at += stubBytes {
		require.Equal(t, "sp+8 fp=s ra=c-8 bx=s", table.Lookup(at).String(), "%#x", at)
		require.Equal(t, "sp+16 fp=s ra=c-8 bx=s", table.Lookup(at+stubBytes-1).String(), "%#x", at)
	}
	require.Equal(t, "sp+24 fp=s ra=c-8 bx=s", table.Lookup(plt.Addr+6).String())
	init := file.Section(".init")
	require.Equal(t, "sp+8 fp=s ra=c-8 bx=s", table.Lookup(init.Addr).String())
	require.Equal(t, "sp+8 fp=s ra=c-8 bx=s", table.Lookup(init.Addr+init.Size-1).String())
}
