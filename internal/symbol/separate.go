// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// separate is what was found of a binary beside it: its debug file, or the small one in .gnu_debugdata.
type separate struct {
	searched bool
	fetched  bool           // from a server, in a file of no file system that is observed
	file     debuginfo.File // the debug file; no bytes when there is none
	path     string
	names    elfimage.Image // where symbols holds its names: the debug file or the small one
	owner    uint64         // of pages of names in the page cache
	symbols  *symTable
	loaded   bool  // symbols were looked for
	memory   int64 // bytes of the small file
}

func (p *separate) bytes() int64 {
	if p.symbols == nil {
		return p.memory
	}
	return p.memory + p.symbols.bytes()
}

// openFor makes a function that opens other files of a binary: below the root of the process that last asked, then below the host's.
func (s *Symbolizer) openFor(b *binary) func(path string) (debuginfo.File, error) {
	return func(path string) (debuginfo.File, error) {
		c, err := s.proc.beside(b.debug.asker, path)
		if err != nil {
			return debuginfo.File{}, err
		}
		defer c.close() //nolint:errcheck // a file that was only looked at
		src, err := c.open()
		if err != nil {
			return debuginfo.File{}, err
		}
		return debuginfo.File{Image: elfimage.Image{Src: src, Size: uint64(max(c.key().size, 0))}, Close: src.Close}, nil
	}
}

// search looks for the debug file of a binary, once.
func (s *Symbolizer) search(b *binary) *separate {
	p := &b.debug.separate
	if p.searched || !s.debugInfo {
		return p
	}
	p.searched = true
	img := b.image()
	img.Src = currentFile{b}
	file, path, err := debuginfo.Separate(img, b.path, s.openFor(b))
	if err == nil {
		p.file, p.path = file, path
	} else if !errors.Is(err, debuginfo.ErrNone) {
		s.badDebug(b, err)
	}
	return p
}

// otherSymbols gives the symbol table of a binary's debug file, nil when there is none.
func (s *Symbolizer) otherSymbols(b *binary) *symTable {
	p := s.search(b)
	if p.loaded {
		return p.symbols
	}
	p.loaded = true
	p.names = p.file.Image
	if p.names.Size == 0 {
		small, err := debuginfo.MiniDebug(b.image())
		if err != nil {
			if !errors.Is(err, debuginfo.ErrNone) {
				s.badDebug(b, err)
			}
			return nil
		}
		p.names = small
		s.keep(b, func() { p.memory = int64(small.Size) })
	}
	s.serial++
	p.owner = s.serial
	t, err := s.buildSymbolsOf(b, p.names, reader{cache: s.pages, owner: p.owner, image: p.names})
	if err != nil {
		s.badDebug(b, fmt.Errorf("symbols: %w", err))
		return nil
	}
	s.keep(b, func() { p.symbols = t })
	return t
}

// nameByOther names a frame by the symbol table of the debug file.
func (s *Symbolizer) nameByOther(b *binary, e *entry) cause {
	t := s.otherSymbols(b)
	if t == nil {
		return noSymbol
	}
	p := &b.debug.separate
	return s.nameNative(b, t, reader{cache: s.pages, owner: p.owner, image: p.names}, keyOther, e)
}

// symbolOf is the function that a symbol table gave a frame, nil when none did.
func symbolOf(e *entry) *model.Function { return e.line[0].Function }
