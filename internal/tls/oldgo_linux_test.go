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

// oldTable is a table of functions as releases of Go before 1.18 write it. What is between two functions is one without a name.
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

// TestOldGo holds that a program of Go 1.17 is looked into where it has its arguments in registers, that one of an older release is known
// by its name, and why nothing of it is seen, and that one without crypto/tls is no failure.
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
	inRegisters := map[elf.Machine]bool{elf.EM_X86_64: true}[machine]
	for _, c := range []struct {
		magic     uint32
		functions []goFunction
		want      Found
		err       string
	}{
		{elfimage.MagicGo12, slices.Concat(methods, []goFunction{goexit}), Found{Library: Go}, "built by Go 1.15 or older: too old a Go to look into: build it with Go 1.18 or newer"},
		{elfimage.MagicGo116, slices.Concat(methods, []goFunction{goexit}), Found{Library: Go}, "built by Go 1.16: too old a Go to look into: build it with Go 1.18 or newer"},
		{elfimage.MagicGo116, slices.Concat(methods, []goFunction{outermost}), want, ""},
		{elfimage.MagicGo116, []goFunction{goexit}, Found{}, ""},
		{elfimage.MagicGo12, []goFunction{goexit}, Found{}, ""},
	} {
		if c.err == "" && len(c.want.Functions) > 0 && !inRegisters {
			c.want, c.err = Found{Library: Go}, "built by Go 1.17: too old a Go to look into: build it with Go 1.18 or newer"
		}
		old := bytes.Clone(content)
		copy(old[table.Offset:], oldTable(c.magic, slices.Clone(c.functions)))
		got, err := Find(elfimage.Image{Src: bytes.NewReader(old), Size: uint64(len(old))})
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, elfimage.ErrOldGo)
			require.EqualError(t, err, c.err)
		}
		require.Equal(t, c.want, got)
	}
}
