// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package allocator

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// find looks into a file.
func find(t testing.TB, path string) ([]Function, error) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	info, err := file.Stat()
	require.NoError(t, err)
	return Find(elfimage.Image{Src: file, Size: uint64(info.Size())})
}

// tool runs a tool of the machine and skips where there is none.
func tool(t testing.TB, name string, args ...string) string {
	t.Helper()
	if guest.Running() {
		t.Skip("the guests have no tools; what is tested does not depend on the kernel")
	}
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed: %v", name, err)
	}
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), errs.String())
	return string(out)
}

// offsets are where readelf says that the functions of a file begin in it, by name.
func offsets(t testing.TB, path string) map[string]uint64 {
	t.Helper()
	type segment struct{ off, vaddr, size uint64 }
	var segments []segment
	all := map[string]uint64{}
	hex := func(text string) uint64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
		require.NoError(t, err)
		return n
	}
	lines := bufio.NewScanner(strings.NewReader(tool(t, "readelf", "-lsW", path)))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) > 5 && f[0] == "LOAD":
			segments = append(segments, segment{hex(f[1]), hex(f[2]), hex(f[4])})
		case len(f) == 8 && f[3] == "FUNC" && f[6] != "UND":
			name, _, _ := strings.Cut(f[7], "@")
			address := hex(f[1])
			for _, s := range segments {
				if address >= s.vaddr && address < s.vaddr+s.size {
					all[name] = address - s.vaddr + s.off
				}
			}
		}
	}
	return all
}

// library finds a library among those that the linker knows.
func library(t testing.TB, name string) string {
	t.Helper()
	for line := range strings.Lines(tool(t, "/sbin/ldconfig", "-p")) {
		if _, path, ok := strings.Cut(line, " => "); ok && strings.HasPrefix(strings.TrimSpace(line), name+" ") {
			return strings.TrimSpace(path)
		}
	}
	t.Skipf("%s is not installed", name)
	return ""
}

func TestLibraries(t *testing.T) {
	for name, want := range map[string]map[string]Call{
		"libc.so.6": {
			"malloc": First, "calloc": Product, "realloc": Reallocate, "reallocarray": ReallocateProduct,
			"memalign": Second, "posix_memalign": Third, "valloc": FirstOuter, "pvalloc": FirstOuter, "free": Release,
		},
		"libjemalloc.so.2": {
			"malloc": First, "calloc": Product, "realloc": Reallocate, "posix_memalign": Third, "aligned_alloc": Second,
			"memalign": Second, "free": Release, "mallocx": FirstOuter, "rallocx": Reallocate, "dallocx": Release,
			"_Znwm": FirstThrows, "_ZnamRKSt9nothrow_t": FirstOuter, "_ZdlPv": Release,
		},
		"libtcmalloc_minimal.so.4": {
			"malloc": FirstOuter, "calloc": Product, "realloc": Reallocate, "posix_memalign": Third,
			"_Znwm": FirstThrows, "_ZdlPv": Release, "free": Release,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := library(t, name)
			functions, err := find(t, path)
			require.NoError(t, err)
			truth := offsets(t, path)
			at := map[uint64]Call{}
			for i, f := range functions {
				require.Equal(t, truth[f.Name], f.Offset, f.Name)
				require.True(t, i == 0 || functions[i-1].Offset < f.Offset, "one for each address")
				at[f.Offset] = f.Call
			}
			for name, call := range want {
				got, ok := at[truth[name]]
				require.True(t, ok, name)
				require.Equal(t, call, got, name)
			}
		})
	}
}

// TestNoAllocator checks that the operators of the C++ library, which call malloc, and programs that only call an
// allocator have no functions.
func TestNoAllocator(t *testing.T) {
	for _, path := range []string{library(t, "libstdc++.so.6"), library(t, "libm.so.6"), "/bin/sh"} {
		functions, err := find(t, path)
		require.NoError(t, err)
		require.Empty(t, functions, path)
	}
}

// compile builds a C program.
func compile(t testing.TB, compiler string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	require.NoError(t, os.WriteFile(source, []byte("#include <stdlib.h>\nint main(int n, char **a) { free(realloc(malloc(n), n + 1)); return 0; }\n"), 0o600))
	tool(t, compiler, append(flags, "-O1", "-fno-builtin", "-o", path, source)...)
	return path
}

func TestStatic(t *testing.T) {
	for _, compiler := range []string{"gcc", "musl-gcc"} {
		t.Run(compiler, func(t *testing.T) {
			path := compile(t, compiler, "-static")
			functions, err := find(t, path)
			require.NoError(t, err)
			truth, got := offsets(t, path), map[uint64]Call{}
			for _, f := range functions {
				require.Equal(t, truth[f.Name], f.Offset, f.Name)
				got[f.Offset] = f.Call
			}
			require.Equal(t, []Call{First, Reallocate, Release}, []Call{got[truth["malloc"]], got[truth["realloc"]], got[truth["free"]]})
			tool(t, "strip", path)
			functions, err = find(t, path)
			require.NoError(t, err)
			require.Empty(t, functions, "nothing names them any more")
		})
	}
}

func TestGo(t *testing.T) {
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { println(len(make([]byte, len(\"abc\")))) }\n"), 0o600))
	tool(t, "go", "build", "-o", path, source)
	want := offsets(t, path)["runtime.mallocgc"] + checked(t, path, "runtime.mallocgc")
	for _, flags := range []string{"", "-s -w"} {
		tool(t, "go", "build", "-ldflags="+flags, "-o", path, source)
		functions, err := find(t, path)
		require.NoError(t, err)
		require.Equal(t, []Function{{Name: "runtime.mallocgc", Call: Go, Offset: want}}, functions, "flags %q", flags)
	}
}

// checked is how many bytes of a function of Go are those that check its stack, as Go's own tool takes it apart: up to its first jump.
func checked(t testing.TB, path, function string) uint64 {
	t.Helper()
	var first uint64
	jumped := false
	for line := range strings.Lines(tool(t, "go", "tool", "objdump", "-s", "^"+regexp.QuoteMeta(function)+"$", path)) {
		f := strings.Fields(line) // place, address, bytes, instruction
		if len(f) < 4 || !strings.HasPrefix(f[1], "0x") {
			continue
		}
		address, err := strconv.ParseUint(f[1][2:], 16, 64)
		require.NoError(t, err)
		if first == 0 {
			first = address
		}
		if jumped {
			return address - first
		}
		jumped = f[3] == "JBE" || f[3] == "JLS" || f[3] == "BLS"
	}
	t.Fatalf("%s has no jump", function)
	return 0
}

func TestGoNames(t *testing.T) {
	for _, name := range []string{"runtime.mallocgc", "runtime.mallocgcSmallNoScanSC12", "runtime.mallocgcSmallScanNoHeaderSC1", "runtime.mallocgcTinySize3"} {
		require.True(t, goMalloc.MatchString(name), name)
	}
	for _, name := range []string{"runtime.mallocgcSmallNoscan", "runtime.mallocgcTiny", "runtime.mallocgcLarge", "main.runtime.mallocgc", "runtime.postMallocgcDebug"} {
		require.False(t, goMalloc.MatchString(name), name+" is called by those that count")
	}
}
