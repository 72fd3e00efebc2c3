// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// scratchBytes is the size of the buffer that files are read with.
const scratchBytes = 64 << 10

// goTable gives the Go function table of a binary, which must be open; nil
// when it has none or a bad one.
func (s *Symbolizer) goTable(b *binary) *elfimage.GoTable {
	if b.golang.loaded {
		return b.golang.table
	}
	b.golang.loaded = true
	t, err := s.buildGo(b)
	if err != nil {
		s.failed(fmt.Errorf("reading the pclntab of %s: %w", b.path, err))
		return nil
	}
	s.keep(b, func() { b.golang.table = t })
	return t
}

func (s *Symbolizer) buildGo(b *binary) (*elfimage.GoTable, error) {
	f, sections, err := layout(b.image())
	if err != nil {
		return nil, err
	}
	off, size, ok := elfimage.FindPclntab(f, sections, s.scratch[:])
	if !ok {
		return nil, nil //nolint:nilnil // not a Go binary
	}
	t, header, err := elfimage.ParsePclntab(f, off, size, s.reserverFor(b))
	if err != nil {
		return nil, err
	}
	if err := t.ResolveText(f, sections, header, s.scratch[:]); err != nil {
		return nil, err
	}
	return t, nil
}

// symTable gives the symbol table of a binary, which must be open, or why
// there is none.
func (s *Symbolizer) symTable(b *binary) (*symTable, cause) {
	if b.symbols.loaded {
		return b.symbols.table, noSymbol
	}
	b.symbols.loaded = true
	t, err := s.buildSymbols(b)
	if err != nil {
		why := s.failed(fmt.Errorf("reading the symbols of %s: %w", b.path, err))
		b.cause = why // sticks: the file will not get better
		if b.golang.table != nil {
			b.cause = named
		}
		return nil, why
	}
	s.keep(b, func() { b.symbols.table = t })
	return t, noSymbol
}

func (s *Symbolizer) buildSymbols(b *binary) (*symTable, error) {
	return buildSymbolsOf(b.image(), s.reader(b), s.scratch[:], s.reserverFor(b))
}

// buildSymbolsOf makes the symbol table of a file, whose names are read by r.
func buildSymbolsOf(m elfimage.Image, r elfimage.Reader, buf []byte, reserve elfimage.Reserver) (*symTable, error) {
	f, sections, err := layout(m)
	if err != nil {
		return nil, err
	}
	sources, err := symSources(f, sections)
	if err != nil {
		return nil, err
	}
	builder := builder{
		f: f, text: f.Executable(sections), buf: buf, names: r, reserve: reserve,
	}
	return builder.build(sources)
}

func layout(m elfimage.Image) (*elfimage.File, []elfimage.Section, error) {
	f, err := elfimage.Parse(m)
	if err != nil {
		return nil, nil, err
	}
	sections, err := f.Sections()
	return f, sections, err
}

// keep accounts for a table that is put into a binary.
func (s *Symbolizer) keep(b *binary, put func()) {
	before := b.tableBytes()
	put()
	if grown := b.tableBytes() - before; grown > 0 {
		s.tableBytes += grown
		s.count.tablesBuilt++
	}
}

// reserverFor makes room for tables of one binary. A single one may take three
// quarters of the memory.
func (s *Symbolizer) reserverFor(b *binary) elfimage.Reserver {
	return func(entries int, each int64) error {
		if limit := s.memory / 4 * 3; int64(entries)*each > limit {
			return fmt.Errorf("table of %d functions, %d bytes: %w of %d for one binary", entries, int64(entries)*each, errTooLarge, limit)
		}
		s.makeRoom(int64(entries)*each, b)
		return nil
	}
}

// dropTables frees the tables of a binary; they are built anew when needed.
func (s *Symbolizer) dropTables(b *binary) {
	s.tableBytes -= b.tableBytes()
	s.count.tablesEvicted++
	b.golang, b.symbols = goTables{}, symTables{}
}
