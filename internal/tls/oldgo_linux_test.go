// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package tls

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// goFunction is one of a table of functions.
type goFunction struct {
	name       string
	entry, end uint64
	flags      byte
}

// oldTable is a table of functions as releases of Go before 1.18 write it. Between two functions is one without a name.
func oldTable(magic uint32, functions []goFunction) []byte {
	le := binary.LittleEndian
	slices.SortFunc(functions, func(a, b goFunction) int { return cmp.Compare(a.entry, b.entry) })
	var all []goFunction
	for i, f := range functions {
		all = append(all, f)
		if i+1 < len(functions) && f.end < functions[i+1].entry {
			all = append(all, goFunction{entry: f.end})
		}
	}
	const header = 8 + 7*8
	head := 8 + 8
	if magic == elfimage.MagicGo116 {
		head = header
	}
	var names []byte
	places := make([]int, len(all))
	for i, f := range all {
		places[i] = len(names)
		names = append(append(names, f.name...), 0)
	}
	entries := 16*len(all) + 8 + 4
	const info = 8 + 8*4 + 4 // of each function
	b := le.AppendUint32(nil, magic)
	b = append(b, 0, 0, map[elf.Machine]byte{elf.EM_X86_64: 1, elf.EM_AARCH64: 4}[machine], 8)
	b = le.AppendUint64(b, uint64(len(all)))
	namesAt, from := head+entries+info*len(all), 0 // offsets of functions count from the header, or from the list
	if magic == elfimage.MagicGo116 {
		b = le.AppendUint64(b, 0) // files
		for range 4 {             // names, units, files and values by address
			b = le.AppendUint64(b, uint64(namesAt))
		}
		b = le.AppendUint64(b, uint64(head))
		from = head
	}
	for i, f := range all {
		b = le.AppendUint64(b, f.entry)
		b = le.AppendUint64(b, uint64(head+entries+info*i-from))
	}
	b = le.AppendUint64(b, functions[len(functions)-1].end)
	b = le.AppendUint32(b, 0)
	for i, f := range all {
		b = le.AppendUint64(b, f.entry)
		name := places[i]
		if magic != elfimage.MagicGo116 {
			name += namesAt
		}
		b = le.AppendUint32(b, uint32(name))
		words := 7 // arguments, deferreturn, three tables, their number, unit
		if magic != elfimage.MagicGo116 {
			words-- // no unit
		}
		b = append(b, make([]byte, 4*words)...)
		b = append(b, 0, f.flags, 0, 0)
		b = append(b, make([]byte, head+entries+info*(i+1)-len(b))...)
	}
	return append(b, names...)
}

// TestOldGo checks that the methods are found in a program with the table of functions of an older release, by where that has arguments: Go
// 1.17 on x86-64 in registers, the others on the stack. A program on x86-64 must then show where its goroutines are, which this one, of
// today's Go, does not. A program without crypto/tls is no failure.
func TestOldGo(t *testing.T) {
	path := testbin.Go(t, "../observe/network/testdata/gotls")
	want, err := find(t, path)
	require.NoError(t, err)
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // only read
	table := file.Section(".gopclntab")
	require.NotNil(t, table)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var methods []goFunction
	parsed, err := elfimage.Parse(elfimage.Image{Src: bytes.NewReader(content), Size: uint64(len(content))})
	require.NoError(t, err)
	sections, err := parsed.Sections()
	require.NoError(t, err)
	release, err := parsed.EachGoFunction(sections, make([]byte, readBytes), maxGoTable, func(name string, entry, end uint64) {
		if _, ok := goTLS[name]; ok {
			methods = append(methods, goFunction{name, entry, end, 0})
		}
	})
	require.NoError(t, err)
	require.Equal(t, elfimage.Go120, release)
	require.Len(t, methods, len(goTLS))
	text := file.Section(".text")
	goexit := goFunction{"runtime.goexit", text.Addr, text.Addr + 1, 0}
	outermost := goexit
	outermost.flags = elfimage.GoTopFrame
	onStack := Found{Library: Go, OnStack: true, Functions: slices.Clone(want.Functions)}
	for i := range onStack.Functions {
		onStack.Functions[i].Call = oldGo[onStack.Functions[i].Call]
	}
	for _, c := range []struct {
		magic     uint32
		functions []goFunction
		want      Found
		release   string // that the error names if goroutines are not found
	}{
		{elfimage.MagicGo12, slices.Concat(methods, []goFunction{goexit}), onStack, "Go 1.15 or older"},
		{elfimage.MagicGo116, slices.Concat(methods, []goFunction{goexit}), onStack, "Go 1.16"},
		{elfimage.MagicGo116, slices.Concat(methods, []goFunction{outermost}), map[elf.Machine]Found{elf.EM_X86_64: want, elf.EM_AARCH64: onStack}[machine], ""},
		{elfimage.MagicGo116, []goFunction{goexit}, Found{}, ""},
		{elfimage.MagicGo12, []goFunction{goexit}, Found{}, ""},
	} {
		old := bytes.Clone(content)
		copy(old[table.Offset:], oldTable(c.magic, slices.Clone(c.functions)))
		got, err := Find(elfimage.Image{Src: bytes.NewReader(old), Size: uint64(len(old))})
		if c.want.OnStack && machine == elf.EM_X86_64 {
			require.ErrorContains(t, err, "built by "+c.release+": looking for where goroutines are: ")
			require.Equal(t, Found{Library: Go}, got)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

// TestOldGoOnTheStack checks where a program with methods as Go 1.16 has them has its arguments and its goroutines, with the table of symbols
// as the truth.
func TestOldGoOnTheStack(t *testing.T) {
	if machine != elf.EM_X86_64 {
		t.Skip("the program is written in the assembly of x86-64")
	}
	path := testbin.C(t, "../observe/network/testdata/oldgo.c")
	found, err := find(t, path)
	require.NoError(t, err)
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // only read
	all, err := file.Symbols()
	require.NoError(t, err)
	symbols := map[string]uint64{}
	for _, s := range all {
		symbols[s.Name] = s.Value
	}
	var variables *elf.Prog // of threads: they end, aligned, where FS begins
	for _, p := range file.Progs {
		if p.Type == elf.PT_TLS {
			variables = p
		}
	}
	require.NotNil(t, variables)
	require.True(t, found.OnStack)
	require.Equal(t, int64(symbols["runtime_g"])-int64((variables.Memsz+variables.Align-1)&^(variables.Align-1)), found.GoroutineAt)
	require.Len(t, found.Functions, 3)
	for i, want := range []struct {
		name, symbol string
		call         Call
	}{
		{"crypto/tls.(*Conn).Read", "go_read", OldGoRead},
		{"crypto/tls.(*Conn).Write", "go_write", OldGoWrite},
		{"crypto/tls.(*Conn).serverHandshake", "go_handshake", OldGoHandshake},
	} {
		const check, returns = 15, 60 // bytes from the first instruction
		f := found.Functions[i]
		require.Equal(t, want.name, f.Name)
		require.Equal(t, want.call, f.Call)
		require.Equal(t, symbols[want.symbol]+check, addressOf(t, file, f.Offset), f.Name)
		require.Len(t, f.Returns, 1)
		require.Equal(t, symbols[want.symbol]+returns, addressOf(t, file, f.Returns[0]), f.Name)
	}
}
