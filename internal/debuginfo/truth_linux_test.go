// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
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

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// place is a line as addr2line and llvm-symbolizer print it.
type place struct {
	function, file string
	line           int
}

// run executes a tool in a folder and returns its output.
func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// imageOf opens a file for reading.
func imageOf(t testing.TB, file string) elfimage.Image {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	st, err := f.Stat()
	require.NoError(t, err)
	return elfimage.Image{Src: f, Size: uint64(st.Size())}
}

// addressesOf returns n addresses that are spread over the code of a program.
func addressesOf(t testing.TB, file string, n int) []uint64 {
	t.Helper()
	f, err := elf.Open(file)
	require.NoError(t, err)
	defer f.Close()
	text := f.Section(".text")
	require.NotNil(t, text)
	step := max(text.Size/uint64(n), 1)
	var out []uint64
	for a := text.Addr; a < text.Addr+text.Size; a += step {
		out = append(out, a)
	}
	return out
}

// withoutSymbols copies a program and hides its symbol table, from which the tools would take the names of functions into which nothing was
// inlined.
func withoutSymbols(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	f, err := elf.NewFile(bytes.NewReader(b))
	require.NoError(t, err)
	headers, size, kind := le.Uint64(b[40:]), 64, 4
	if f.Class == elf.ELFCLASS32 {
		headers, size = uint64(le.Uint32(b[32:])), 40
	}
	for i, s := range f.Sections {
		if s.Type == elf.SHT_SYMTAB {
			le.PutUint32(b[int(headers)+i*size+kind:], uint32(elf.SHT_PROGBITS))
		}
	}
	out := filepath.Join(t.TempDir(), "hidden")
	require.NoError(t, os.WriteFile(out, b, 0o600))
	return out
}

// ask has a tool name addresses: the innermost function of each first.
func ask(t testing.TB, tool, file string, addrs []uint64) [][]place {
	t.Helper()
	args := []string{"-e", file, "-f", "-i", "-a"}
	if strings.Contains(tool, "llvm") {
		args = append(args, "--output-style=GNU", "--no-demangle")
	}
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(tool, args...)
	cmd.Stdin = &in
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	require.NoError(t, err)
	var out [][]place
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "0x") {
			out = append(out, nil)
			continue
		}
		require.True(t, lines.Scan())
		at := lines.Text()
		at, _, _ = strings.Cut(at, " (discriminator")
		i := strings.LastIndexByte(at, ':')
		number, err := strconv.Atoi(at[i+1:])
		if err != nil { // "?"
			number = 0
		}
		name := at[:i]
		if name != "??" {
			name = path.Clean(name)
		}
		last := len(out) - 1
		out[last] = append(out[last], place{line, name, number})
	}
	require.Len(t, out, len(addrs))
	return out
}

// ours returns the places of addresses by Data.
func ours(t testing.TB, d *Data, addrs []uint64) [][]place {
	t.Helper()
	out := make([][]place, len(addrs))
	for i, a := range addrs {
		lines, err := d.Lookup(a, nil)
		require.NoErrorf(t, err, "%#x", a)
		for _, l := range lines {
			p := place{"??", l.File, int(l.Line)}
			if l.Function != nil {
				p.function = l.Function.Linkage
				if p.function == "" {
					p.function = l.Function.Name
				}
			}
			if p.file == "" {
				p.file = "??"
			}
			out[i] = append(out[i], p)
		}
	}
	return out
}

// compare counts the addresses with debug information, and those of them whose places are not all equal.
func compare(t testing.TB, addrs []uint64, want, got [][]place) (known, inlined, different int) {
	t.Helper()
	for i := range addrs {
		w := want[i]
		if len(w) == 0 || w[0].file == "??" {
			continue
		}
		known++
		if len(w) > 1 {
			inlined++
		}
		if !equalPlaces(w, got[i]) {
			different++
			if different <= 5 {
				t.Logf("%#x:\n want %v\n got  %v", addrs[i], w, got[i])
			}
		}
	}
	return known, inlined, different
}

func equalPlaces(want, got []place) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] {
			return false
		}
	}
	return true
}

// build compiles programs of testdata and returns the path.
func build(t testing.TB, compiler string, sources []string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	require.NoError(t, err)
	args := append([]string{"-o", filepath.Join(dir, "program")}, flags...)
	for _, s := range sources {
		args = append(args, filepath.Join(here, "testdata", s))
	}
	run(t, dir, compiler, args...)
	return filepath.Join(dir, "program")
}

// symbolizers are the tools that have the truth. addr2line of binutils has bugs with the output of some compilers (numbers of files of DWARF
// 5, range lists of clang, 64-bit offsets), so that it is not used for those.
func symbolizers(t testing.TB, addr2line bool) []string {
	t.Helper()
	var out []string
	for _, name := range []string{"llvm-symbolizer-19", "llvm-symbolizer"} {
		if _, err := exec.LookPath(name); err == nil {
			out = append(out, name)
			break
		}
	}
	if addr2line {
		out = append(out, "addr2line")
	}
	require.NotEmpty(t, out, "neither llvm-symbolizer nor addr2line is there")
	return out
}

// requireTruth compares the results of Data for a program with those of other tools.
func requireTruth(t *testing.T, d *Data, file string, addr2line bool) (known, inlined int) {
	t.Helper()
	addrs := addressesOf(t, file, 4000)
	got := ours(t, d, addrs)
	hidden := withoutSymbols(t, file)
	for _, tool := range symbolizers(t, addr2line) {
		var different int
		known, inlined, different = compare(t, addrs, ask(t, tool, hidden, addrs), got)
		t.Logf("%s: %d addresses with lines, %d of them in inlined functions, %d different", tool, known, inlined, different)
		require.Zero(t, different, tool)
		require.Greater(t, known, 100)
	}
	return known, inlined
}

// open opens the debug information of a file for the time of a test.
func open(t testing.TB, file string, opt Options) *Data {
	t.Helper()
	d, err := Open(imageOf(t, file), opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

var cplusplus = []string{"shop.cc", "other.cc"}

func TestTruth(t *testing.T) {
	for _, c := range []struct {
		compiler  string
		sources   []string
		flags     string
		addr2line bool
	}{
		{"g++", cplusplus, "-O2 -gdwarf-5", true},
		{"g++", cplusplus, "-O2 -gdwarf-4", true},
		{"g++", cplusplus, "-O2 -gdwarf-3 -gstrict-dwarf", true},
		{"g++", cplusplus, "-O2 -gdwarf-2 -gstrict-dwarf", true},
		{"g++", cplusplus, "-O3 -gdwarf-5 -ffunction-sections -Wl,--gc-sections -flto", false},
		{"g++", cplusplus, "-O0 -gdwarf-5", false},
		{"clang++-19", cplusplus, "-O2 -gdwarf-5", false},
		{"clang++-19", cplusplus, "-O2 -gdwarf-4", true},
		{"clang++-19", cplusplus, "-O2 -gdwarf-3", true},
		{"clang++-19", cplusplus, "-O2 -gdwarf-2", true},
		{"clang++-19", cplusplus, "-O2 -g1", false},
		{"gcc", []string{"plain.c"}, "-O2 -gdwarf-5", true},
		{"gcc", []string{"plain.c"}, "-O2 -gdwarf-2", true},
		{"gcc", []string{"plain.c"}, "-O2 -gdwarf-5 -gdwarf64", false},
		{"gcc", []string{"plain.c"}, "-O2 -gdwarf-4 -gdwarf64", true},
		{"gcc", []string{"plain.c"}, "-O2 -g -m32 -nostdlib -fno-pie -no-pie -Wl,--unresolved-symbols=ignore-all", true},
		{"clang-19", []string{"plain.c"}, "-O2 -gdwarf-5", true},
	} {
		t.Run(c.compiler+" "+c.flags, func(t *testing.T) {
			needCompiler(t, c.compiler)
			file := build(t, c.compiler, c.sources, strings.Fields(c.flags)...)
			_, inlined := requireTruth(t, open(t, file, Options{}), file, c.addr2line)
			if !strings.Contains(c.flags, "-O0") {
				require.Greater(t, inlined, 10)
			}
		})
	}
}

// needCompiler skips a test that needs a missing compiler. Those of GNU must be installed: see also TestCommitted, which needs none.
func needCompiler(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil && (strings.HasPrefix(name, "clang") || guest.Running()) {
		t.Skipf("no %s here", name)
	}
}

func TestRust(t *testing.T) {
	if _, err := exec.LookPath("rustc"); err != nil {
		t.Skip("no rustc here")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.rs")
	require.NoError(t, os.WriteFile(source, []byte(`
use std::collections::HashMap;
mod shop {
    pub struct Cart { pub items: Vec<u64> }
    impl Cart {
        #[inline(always)]
        fn mix(x: u64) -> u64 { x.rotate_left(7) ^ 0x9e37 }
        #[inline(never)]
        pub fn total(&self) -> u64 { self.items.iter().map(|x| Self::mix(*x)).filter(|x| x % 3 != 0).sum() }
    }
}
fn main() {
    let mut names: HashMap<String, u64> = HashMap::new();
    for (i, a) in std::env::args().enumerate() { *names.entry(a).or_insert(0) += i as u64; }
    let cart = shop::Cart { items: names.values().copied().collect() };
    println!("{}", cart.total());
}`), 0o600))
	run(t, dir, "rustc", "-O", "-g", "-o", "program", source)
	file := filepath.Join(dir, "program")
	known, inlined := requireTruth(t, open(t, file, Options{}), file, false)
	require.Greater(t, known, 1000)
	require.Greater(t, inlined, 500)
}
