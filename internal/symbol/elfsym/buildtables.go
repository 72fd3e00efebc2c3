// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"errors"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// ErrNoRoom is the cause when a table must not be held entirely.
var ErrNoRoom = errors.New("exceeds the symbols' share of limits::memory_mib")

// searchedBytes is how much of a file without sections may be searched for a pclntab in the lane of small tables.
const searchedBytes = 16 << 20

// IsLarge reports whether a binary's tables take long to read.
func IsLarge(f *elfimage.File, sections []elfimage.Section, sources []Source) bool {
	var bytes uint64
	for _, s := range sources {
		bytes += s.size
	}
	return bytes > smallTables || len(sections) == 0 && f.Size > searchedBytes
}

// smallTables is the size in bytes, in the file, from which on symbol tables are large: reading them takes some 30 ms of CPU time.
const smallTables = 4 << 20

// ScratchBytes is the size of the buffer that files are read with.
const ScratchBytes = 64 << 10

// BuildGo reads the Go function table of a file, nil when it has none.
func BuildGo(f *elfimage.File, sections []elfimage.Section, buf []byte, reserve elfimage.Reserver) (*elfimage.GoTable, error) {
	off, size, ok := elfimage.FindPclntab(f, sections, buf)
	if !ok {
		return nil, nil //nolint:nilnil // not a Go binary
	}
	t, header, err := elfimage.ParsePclntab(f, off, size, reserve)
	if err != nil {
		return nil, err
	}
	if err := t.ResolveText(f, sections, header, buf); err != nil {
		return nil, err
	}
	return t, nil
}

// Build makes the symbol table of a file, whose names are read by r.
func Build(m elfimage.Image, r elfimage.Reader, buf []byte, reserve elfimage.Reserver) (*Table, error) {
	f, sections, err := Layout(m)
	if err != nil {
		return nil, err
	}
	sources, err := Sources(f, sections)
	if err != nil {
		return nil, err
	}
	builder := Builder{File: f, Text: f.Executable(sections), Buf: buf, Names: r, Reserve: reserve}
	return builder.Build(sources)
}

// Layout reads the headers of a file.
func Layout(m elfimage.Image) (*elfimage.File, []elfimage.Section, error) {
	f, err := elfimage.Parse(m)
	if err != nil {
		return nil, nil, err
	}
	sections, err := f.Sections()
	return f, sections, err
}
