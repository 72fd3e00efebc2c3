// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// TestContent distinguishes copies of a binary from those with differences in the sections from which unwind tables or names of functions are
// made, and from those that cannot be compared.
func TestContent(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program.c")
	require.NoError(t, os.WriteFile(source, []byte(programC), 0o600))
	program := source + ".out"
	toolchain.Run(t, "gcc", "-O1", "-g", "-Wl,--build-id", "-o", program, source)
	good, err := os.ReadFile(program)
	require.NoError(t, err)
	file, err := elf.Open(program)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	frames, text := file.Section(".eh_frame"), file.Section(".text")
	require.Greater(t, frames.Offset, uint64(elfsym.HashedPart), "or head and tail show it")
	inode := uint64(0)
	read := func(change func(img []byte)) *binary {
		img := bytes.Clone(good)
		change(img)
		inode++
		b, err := newBinary("program", fileKey{ino: inode, size: int64(len(img))}, memorySource{bytes.NewReader(img)})
		require.NoError(t, err)
		b.sumAtOnce()
		return b
	}
	set := func(at uint64, b ...byte) func([]byte) { return func(img []byte) { copy(img[at:], b) } }
	first := read(func([]byte) {})
	require.True(t, first.sharable)
	require.Equal(t, first.contentKey(), read(func([]byte) {}).contentKey())
	require.Equal(t, first.contentKey(), read(set(text.Offset, 0xcc)).contentKey(), "code is not summed")
	for _, name := range []string{".eh_frame", ".symtab", ".strtab", ".dynsym", ".dynstr", ".debug_info", ".debug_line", ".debug_str"} {
		s := file.Section(name)
		last := s.Offset + s.Size - 1
		for _, at := range []uint64{s.Offset, (s.Offset + last) / 2, last} {
			b := read(set(at, ^good[at]))
			require.True(t, b.sharable)
			require.NotEqual(t, first.contentKey(), b.contentKey(), "byte %#x of %s", at-s.Offset, name)
		}
	}
	require.Equal(t, first.id, read(set(frames.Offset, ^good[frames.Offset])).id, "or the id shows it")
	require.False(t, read(set(40, make([]byte, 8)...)).sharable, "without section headers")
	headers := le.Uint64(good[40:])
	for i, s := range file.Sections {
		if s.Name == ".eh_frame" {
			size := headers + uint64(i)*64 + 32
			require.False(t, read(set(size, le.AppendUint64(nil, maxDefining+1)...)).sharable, "a section beyond the bound")
			require.False(t, read(set(size, le.AppendUint64(nil, uint64(len(good)))...)).sharable, "a section beyond the file")
		}
	}
}
