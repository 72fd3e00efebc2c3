// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/dwarf"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const programGo = `package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

//go:noinline
func deep(n int) int {
	var here [64]int
	for i := range here {
		here[i] = n * i
	}
	if n == 0 {
		return here[len(os.Args)]
	}
	return deep(n-1) + here[n%64]
}

func main() {
	words := strings.Fields("some words to be sorted")
	sort.Strings(words)
	fmt.Println(words, deep(10))
}
`

// compiledGo builds programGo for an architecture.
func compiledGo(t testing.TB, goarch string, args ...string) string {
	t.Helper()
	need(t, "go")
	dir := t.TempDir()
	src, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "p")
	require.NoError(t, os.WriteFile(src, []byte(programGo), 0o600))
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, args...), src)...)
	cmd.Env = append(os.Environ(), "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

// TestGo compares frame sizes from the pclntab with the .debug_frame that Go's linker writes, which has nothing about frame pointers, and no
// end.
func TestGo(t *testing.T) {
	need(t, "readelf")
	for _, c := range []struct {
		goarch string
		args   []string
	}{{"amd64", nil}, {"amd64", []string{"-buildmode=pie"}}, {"arm64", nil}} {
		t.Run(c.goarch+strings.Join(c.args, ""), func(t *testing.T) {
			path := compiledGo(t, c.goarch, c.args...)
			table, err := Build(imageAt(t, path), Limits{})
			require.NoError(t, err)
			require.NoError(t, table.Err)
			require.Equal(t, SourceGo, table.Sources&^SourceAssumed, "the pclntab has it all")
			want := readelf(t, path, ".debug_frame")
			require.Greater(t, len(want), 1000)
			checkGo(t, table, want, c.goarch)
		})
	}
}

func checkGo(t *testing.T, table *Table, want []truth, goarch string) {
	t.Helper()
	word := map[string]string{"amd64": "rsp", "arm64": "sp"}[goarch]
	rows, special, wrong := 0, 0, 0
	for _, f := range want {
		switch table.Lookup(f.start).CFA {
		case CFAEnd, CFASignal, CFAFramePointer, CFAGoGrows, CFANone:
			special++
			continue
		}
		for i, r := range f.rows {
			to := f.end
			if i+1 < len(f.rows) {
				to = f.rows[i+1].pc
			}
			if r.pc >= to {
				continue
			}
			rows++
			size, err := strconv.Atoi(strings.TrimPrefix(r.cfa, word))
			require.NoError(t, err)
			for _, pc := range []uint64{r.pc, to - 1} {
				got := table.Lookup(pc)
				if !sameGo(got, size, goarch) {
					if wrong++; wrong < 20 {
						t.Errorf("%#x: %v, readelf says %+v", pc, got, r)
					}
				}
			}
		}
	}
	require.Zero(t, wrong)
	require.Less(t, special, 40)
	t.Logf("%d functions, %d rows, %d functions that end stacks or switch them", len(want), rows, special)
}

// sameGo reports whether a rule is that of a frame whose CFA is size bytes above sp.
func sameGo(got Rule, size int, goarch string) bool {
	beyond := goarch == "amd64" && size < 8 || goarch == "arm64" && (size < 0 || size > 32000)
	if beyond { // in debugCallV2 and in reflect's calls with huge arguments
		return got == Rule{}
	}
	if got.CFA != CFAStackPointer || int(got.CFAOffset) != size {
		return false
	}
	if goarch == "amd64" {
		fp := got.FP == Same || got.FP == Saved && got.FPOffset == -16 && size > 8
		return fp && got.RA == Saved && got.RAOffset == -8
	}
	if size == 0 {
		return got.RA == Same && got.FP == Same
	}
	return got.RA == Saved && int(got.RAOffset) == -size && got.FP == Saved && int(got.FPOffset) == -size-8
}

// curgOffset is the offset of curg in struct m of a Go program, by its DWARF.
func curgOffset(t *testing.T, f *elf.File) int32 {
	t.Helper()
	data, err := f.DWARF()
	require.NoError(t, err)
	inM := false
	for r := data.Reader(); ; {
		e, err := r.Next()
		require.NoError(t, err)
		require.NotNil(t, e, "no runtime.m.curg")
		name, _ := e.Val(dwarf.AttrName).(string)
		switch {
		case e.Tag == dwarf.TagStructType:
			inM = name == "runtime.m"
		case inM && e.Tag == dwarf.TagMember && name == "curg":
			return int32(e.Val(dwarf.AttrDataMemberLoc).(int64)) //nolint:forcetypeassert // Go's linker writes a constant
		}
	}
}

// TestGoRuntime checks the special rules of the runtime's own functions.
func TestGoRuntime(t *testing.T) {
	path := compiledGo(t, "amd64")
	table, err := Build(imageAt(t, path), Limits{})
	require.NoError(t, err)
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	symbols, err := f.Symbols()
	require.NoError(t, err)
	curg := curgOffset(t, f)
	at := map[string]elf.Symbol{}
	for _, s := range symbols {
		at[strings.TrimSuffix(s.Name, ".abi0")] = s
	}
	switches := Rule{CFA: CFAFramePointer, CFAOffset: 16, FP: Saved, FPOffset: -16, RA: Saved, RAOffset: -8, BX: Undefined}
	for name, want := range map[string]Rule{
		"runtime.goexit": {CFA: CFAEnd}, "runtime.mstart": {CFA: CFAEnd}, "runtime.rt0_go": {CFA: CFAEnd},
		"runtime.mcall": {CFA: CFAEnd}, "runtime.morestack": {CFA: CFAGoGrows, CFAOffset: curg},
		"runtime.sigreturn__sigaction": {CFA: CFASignal},
		"runtime.systemstack":          switches, "runtime.asmcgocall": switches,
	} {
		s, ok := at[name]
		require.True(t, ok, name)
		require.Equal(t, want, table.Lookup(s.Value), name)
		require.Equal(t, want, table.Lookup(s.Value+s.Size-1), name)
	}
	// Assembler code that is flagged as outermost, but was called by the kernel.
	s := at["runtime.sigtramp"]
	got := table.Lookup(s.Value + s.Size/2)
	require.Equal(t, CFAStackPointer, got.CFA)
	require.Greater(t, got.CFAOffset, int32(16))
	require.Equal(t, Saved, got.FP)
	// These are the ends of a frame: PUSHQ BP and what follows.
	s = at["main.deep"]
	require.Equal(t, Rule{CFA: CFAStackPointer, CFAOffset: 8, RA: Saved, RAOffset: -8, BX: Undefined}, table.Lookup(s.Value))
	seen := map[string]bool{}
	for pc := s.Value; pc < s.Value+s.Size; pc++ {
		seen[table.Lookup(pc).String()] = true
	}
	require.True(t, seen["sp+16 fp=c-16 ra=c-8 bx=u"], "%v", seen)
	require.Len(t, seen, 3, "%v", seen)
}
