// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// keyLines marks the keys of functions that debug information names.
const keyLines = 1 << 63

// debugTables is the debug information of a binary.
type debugTables struct {
	loaded bool
	data   *debuginfo.Data // nil when there is none
	known  *debuginfo.Known
	asker  model.ProcessID // the process whose frame is being named
	separate
}

// ask notes whose frame is being named, nil for none.
func (d *debugTables) ask(a *AddressSpace) {
	if d.asker = (model.ProcessID{}); a != nil {
		d.asker = a.id
	}
}

func (d *debugTables) bytes() int64 {
	n := d.separate.bytes()
	if d.data != nil {
		n += d.data.Bytes()
	}
	if d.known != nil {
		n += d.known.Bytes()
	}
	return n
}

// others reports whether files beside the binary are open.
func (d *debugTables) others() bool {
	return d.file.Size > 0 && !d.fetched || d.data != nil && d.data.Others()
}

// close frees what is held.
func (d *debugTables) close() error {
	data, file := d.data, d.file
	*d = debugTables{}
	var errs []error
	if data != nil {
		errs = append(errs, data.Close())
	}
	if file.Close != nil {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// currentFile reads a binary's file, whichever descriptor that has by now.
type currentFile struct{ b *binary }

// ReadAt implements io.ReaderAt.
func (c currentFile) ReadAt(buf []byte, off int64) (int, error) {
	if c.b.file == nil {
		return 0, io.ErrClosedPipe
	}
	return c.b.file.ReadAt(buf, off)
}

// debugData gives the debug information of a binary, which must be open; nil when it has none.
func (s *Symbolizer) debugData(b *binary) *debuginfo.Data {
	if b.debug.loaded || b.pinned {
		return b.debug.data
	}
	b.debug.loaded = true
	img := b.image()
	img.Src = currentFile{b}
	options := debuginfo.Options{Memory: s.memory / 4 * 3, Workspace: &s.workspace, Open: s.openFor(b), Path: b.path}
	data, err := debuginfo.Open(img, options)
	if data == nil {
		if p := s.search(b); p.file.Size > 0 {
			options.Path, options.Binary = p.path, b.path
			data, err = debuginfo.Open(p.file.Image, options)
		}
	}
	if err != nil && !errors.Is(err, debuginfo.ErrNone) {
		s.badDebug(b, err)
	}
	if data == nil {
		s.fetch(b)
		return nil
	}
	s.keep(b, func() { b.debug.data = data })
	return data
}

// nameLines adds to a frame what debug information says of its address: functions, files and lines. The symbol is what the symbol
// table says, nil when nothing.
func (s *Symbolizer) nameLines(b *binary, symbol *model.Function, e *entry) bool {
	lines := s.linesOf(b, e.frame.Address)
	if n := len(lines); n == 0 || lines[n-1].Function == nil && symbol == nil {
		return false
	}
	out := e.line[:0]
	e.more = nil
	for i, l := range lines {
		var outer *model.Function
		if i == len(lines)-1 {
			outer = symbol
		}
		f, key := s.lineFunction(b, l, outer)
		if i == 0 {
			e.function = key
		} else {
			e.more = append(e.more, key)
		}
		out = append(out, model.Line{Function: f, Line: int64(l.Line)})
	}
	e.frame.Lines = out
	return true
}

// linesOf gives the lines of an address, from the cache on disk or from debug information. They are valid until the next call.
func (s *Symbolizer) linesOf(b *binary, addr uint64) []debuginfo.Line {
	if !s.debugInfo {
		return nil
	}
	if known := s.remembered(b); known != nil {
		if lines, ok := known.Lines(addr); ok {
			return lines
		}
	}
	data := s.debugData(b)
	if data == nil {
		return nil
	}
	before := data.Bytes()
	lines, err := data.Lookup(addr, s.lines[:0])
	s.tableBytes += data.Bytes() - before
	s.lines = lines[:0]
	if err != nil {
		s.badDebug(b, err)
	} else {
		s.remember(b, addr, lines)
	}
	return lines
}

// lineFunction gives the function of a line. The symbol is that of the symbol table, which knows better where debug information has
// no linkage name, nil for what was inlined.
func (s *Symbolizer) lineFunction(b *binary, l debuginfo.Line, symbol *model.Function) (*model.Function, uint64) {
	system, start := "", int64(0)
	if l.Function != nil {
		system = l.Function.Linkage
		if l.Function.File == l.File {
			start = int64(l.Function.Line)
		}
	}
	if system == "" && symbol != nil {
		system = symbol.SystemName
	}
	if system == "" && l.Function != nil {
		system = l.Function.Name
	}
	key := keyOf(system, l.File, start)
	if f := b.frames.functionFor(key); f != nil && f.SystemName == system {
		return f, key
	}
	name, _ := demangled(system)
	before := b.frames.bytes()
	f := &model.Function{Name: name, SystemName: system, Filename: b.frames.fileName(l.File), StartLine: start}
	s.frameBytes += b.frames.bytes() - before
	s.putFunction(b, key, f)
	return f, key
}

var hashSeed = maphash.MakeSeed()

// keyOf is the key of a function that debug information names.
func keyOf(system, file string, start int64) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	h.WriteString(system) //nolint:errcheck // never fails
	h.WriteByte(0)        //nolint:errcheck // never fails
	h.WriteString(file)   //nolint:errcheck // never fails
	var b [8]byte
	le.PutUint64(b[:], uint64(start))
	h.Write(b[:]) //nolint:errcheck // never fails
	return h.Sum64() | keyLines
}

func (s *Symbolizer) badDebug(b *binary, err error) {
	s.failed(&reasonError{badDebug, fmt.Errorf("reading the debug information of %s: %w", b.path, err)})
}
