// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// Function is a function of the source. Values are shared within a unit.
type Function struct {
	// Name is its name in the source, without class or namespace.
	Name string
	// Linkage is its mangled name, or empty.
	Linkage string
	// File and Line are where it is defined, or empty and 0.
	File string
	Line uint32
}

// Line is a line of the source.
type Line struct {
	// Function is nil if only the line is known, as in assembler code.
	Function *Function
	// File is the path of the source file, or empty.
	File string
	// Line is 0 if the compiler has set none.
	Line uint32
}

const tableBytes = int64(unsafe.Sizeof(table{})+unsafe.Sizeof(unit{})+unsafe.Sizeof(lineHeader{})) + 128

// table is what is kept of a unit after the first lookup in it.
type table struct {
	unit      *unit       // whose entries there are
	lines     *lineHeader // nil without a line table
	rows      []row
	scopeRows []scopeRow
	scopes    []scope
	functions []uint64 // references, see reference
	named     map[uint32]*Function
	paths     map[uint32]string
	textBytes int64 // of names and paths
	used      uint64
	failed    bool // it cannot be made
}

func (t *table) bytes() int64 {
	return tableBytes + rowBytes*int64(len(t.rows)) + scopeRowBytes*int64(cap(t.scopeRows)) + scopeBytes*int64(len(t.scopes)) +
		8*int64(len(t.functions)) + t.textBytes
}

// Workspace is what several Data share: the memory that tables are made in, some 1.5 MiB, and the bound of inflated sections. Data that are
// never used at the same time can share one.
type Workspace struct {
	window [streamWindow]byte
	rows   []row
	walker walker
	// inFiles is how many bytes of compressed sections all Data have, or reserved, in files.
	inFiles uint64
}

// InFiles is how many bytes of compressed sections the Data that share it have inflated into files.
func (m *Workspace) InFiles() uint64 { return m.inFiles }

// maxKept is the most that a workspace keeps for the next unit, in entries of each sort.
const maxKept = 1 << 15

// make makes the table of an opened unit. The limit is in bytes. An error together with a table describes what it lacks.
func (m *Workspace) make(u *unit, text elfimage.Span, limit int64) (*table, error) {
	t := &table{unit: u}
	var errLines error
	if u.program().root.stmtList.ok() {
		t.lines, m.rows, errLines = readRows(u, text, m.rows, int(limit/2/rowBytes), m.window[:])
		if errLines == nil {
			t.rows = slices.Clone(m.rows)
		}
	}
	w := &m.walker
	*w = walker{
		unit: u, c: u.obj.info.at(u.die, u.end, m.window[:]), text: text, limit: int(limit / 2 / (extentBytes + scopeBytes)),
		scopes: w.scopes[:0], extents: w.extents[:0], origins: w.origins[:0], open: w.open[:0], depths: w.depths[:0],
	}
	errTree := w.walk()
	if errTree == nil {
		t.scopeRows, t.scopes, t.functions = w.scopeRows(), slices.Clone(w.scopes), slices.Clone(w.origins)
	}
	if cap(m.rows) > maxKept || cap(w.scopes) > maxKept || cap(w.extents) > maxKept {
		m.rows, m.walker = nil, walker{}
	}
	m.walker.known = nil
	return t, errors.Join(errLines, errTree)
}

// find appends the lines of an address, the innermost first.
func (t *table) find(d *Data, addr uint32, dst []Line) ([]Line, error) {
	i, _ := slices.BinarySearchFunc(t.scopeRows, addr, func(p scopeRow, a uint32) int {
		if p.addr <= a {
			return -1
		}
		return 1
	})
	at := uint32(noScope)
	if i > 0 {
		at = t.scopeRows[i-1].scope
	}
	r := rowAt(t.rows, addr)
	if r == nil && at == noScope {
		return dst, nil
	}
	var errs []error
	path := func(file uint32) string {
		text, err := t.path(d, file)
		if err != nil {
			errs = append(errs, err)
		}
		return text
	}
	var line Line
	if r != nil {
		line.File, line.Line = path(r.file), r.line
	}
	for at != noScope {
		s := &t.scopes[at]
		f, err := t.function(d, s.function)
		if err != nil {
			errs = append(errs, err)
		}
		line.Function = f
		dst = append(dst, line)
		if at = s.parent; at != noScope {
			line = Line{File: path(s.callFile), Line: s.callLine}
		} else {
			return dst, errors.Join(errs...)
		}
	}
	return append(dst, line), errors.Join(errs...)
}

// path returns the path of a source file by its number in the unit.
func (t *table) path(d *Data, file uint32) (string, error) {
	if text, ok := t.paths[file]; ok || t.lines == nil {
		return text, nil
	}
	text, err := d.files(t.lines).path(file)
	if t.paths == nil {
		t.paths = make(map[uint32]string)
	}
	t.paths[file] = text // an empty one too: it will not get better
	t.textBytes += 48 + int64(len(text))
	return text, err
}

// function returns a function by its index.
func (t *table) function(d *Data, index uint32) (*Function, error) {
	if f, ok := t.named[index]; ok {
		return f, nil
	}
	found, err := t.unit.obj.function(t.functions[index])
	f := &Function{Name: found.name, Linkage: found.linkage, Line: found.declLine}
	if u := found.declUnit; u != nil {
		var errPath error
		f.File, errPath = t.declared(d, u, found.declFile)
		err = errors.Join(err, errPath)
	}
	if t.named == nil {
		t.named = make(map[uint32]*Function)
	}
	t.named[index] = f
	t.textBytes += 128 + int64(len(f.Name)+len(f.Linkage)+len(f.File))
	return f, err
}

// declared returns the path of a file by its number in any unit.
func (t *table) declared(d *Data, u *unit, file uint32) (string, error) {
	if u.obj == t.unit.obj && u.off == t.unit.off {
		return t.path(d, file)
	}
	if !u.root.stmtList.ok() {
		return "", nil
	}
	h, err := readLineHeader(u)
	if err != nil {
		return "", err
	}
	return d.files(h).path(file)
}
