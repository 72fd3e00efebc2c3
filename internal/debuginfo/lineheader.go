// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"path"
)

// Bounds of one line table's header.
const (
	maxLineFiles   = 1 << 17
	maxLineDirs    = 1 << 16
	maxLineFormats = 64
)

// Content of entries of DWARF 5's tables of files; DWARF 5, 7.22.
const (
	lnctPath           = 0x1
	lnctDirectoryIndex = 0x2
)

var errNoFile = errors.New("no file of that number")

// lineHeader is the header of a line table; DWARF 5, 6.2.4.
type lineHeader struct {
	unit           *unit
	off            uint64
	encoding       // the unit's may differ
	minInstruction uint8
	maxOperations  uint8
	lineBase       int8
	lineRange      uint8
	opcodeBase     uint8
	operands       [256]uint8
	tables         uint64 // offset of the tables of directories and files
	program, end   uint64

	dirs  []value
	files []lineFile
}

// lineFile is a source file: its name, in a form of .debug_line, and the number of its directory.
type lineFile struct {
	name value
	dir  uint64
}

// readLineHeader reads the header of the line table of a unit, without the tables of files.
func readLineHeader(u *unit) (*lineHeader, error) {
	u = u.program()
	s := &u.obj.line
	h := &lineHeader{unit: u, off: u.root.stmtList.u}
	c := s.at(h.off, s.Size, u.obj.spot[:])
	length, size := c.initialLength()
	start := c.offset()
	h.version, h.offsetSize, h.addrSize = uint8(min(c.u16(), 255)), uint8(size), u.addrSize
	if c.err == nil && (h.version < 2 || h.version > 5) {
		return nil, fmt.Errorf("%s+%#x: %d: %w", s.name, h.off, h.version, errVersion)
	}
	if h.version >= 5 {
		h.addrSize = c.u8()
		c.u8() // segment selectors
	}
	headerLength := c.fixed(size)
	h.program = c.offset() + headerLength
	h.minInstruction, h.maxOperations = c.u8(), 1
	if h.version >= 4 {
		h.maxOperations = c.u8()
	}
	c.u8() // default_is_stmt
	h.lineBase, h.lineRange, h.opcodeBase = int8(c.u8()), c.u8(), c.u8()
	for i := 1; i < int(h.opcodeBase); i++ {
		h.operands[i] = c.u8()
	}
	h.tables = c.offset()
	if c.err == nil && (length > s.Size-start || headerLength > length || h.program > start+length || h.program < h.tables) {
		c.fail(errShort)
	}
	h.end = start + length
	if c.err == nil && (h.lineRange == 0 || h.maxOperations == 0 || h.opcodeBase == 0 || h.addrSize != 4 && h.addrSize != 8) {
		c.fail(errors.New("impossible line table header"))
	}
	return h, c.err
}

// readFiles reads the tables of directories and files.
func (h *lineHeader) readFiles() error {
	s := &h.unit.obj.line
	c := s.at(h.tables, h.program, make([]byte, 8<<10))
	if h.version >= 5 {
		h.readTable(&c, maxLineDirs, func(f lineFile) { h.dirs = append(h.dirs, f.name) })
		h.readTable(&c, maxLineFiles, func(f lineFile) { h.files = append(h.files, f) })
		return c.err
	}
	h.dirs = append(h.dirs, value{}) // the unit's own directory
	for c.err == nil {
		v := value{formString, c.offset()}
		if c.skipText(); c.offset() == v.u+1 || c.err != nil {
			break
		}
		if len(h.dirs) == maxLineDirs {
			c.fail(ErrTooLarge)
		}
		h.dirs = append(h.dirs, v)
	}
	h.files = append(h.files, lineFile{}) // files count from 1
	for c.err == nil {
		v := value{formString, c.offset()}
		if c.skipText(); c.offset() == v.u+1 || c.err != nil {
			break
		}
		f := lineFile{v, c.uleb()}
		c.skipLEB() // time
		c.skipLEB() // length
		if len(h.files) == maxLineFiles {
			c.fail(ErrTooLarge)
		}
		h.files = append(h.files, f)
	}
	return c.err
}

// readTable reads a table of DWARF 5, 6.2.4.1.
func (h *lineHeader) readTable(c *cursor, limit uint64, add func(lineFile)) {
	type format struct {
		content uint64
		form    uint16
	}
	formats := make([]format, c.u8())
	if len(formats) > maxLineFormats {
		c.fail(ErrTooLarge)
		return
	}
	for i := range formats {
		formats[i].content = c.uleb()
		form := c.uleb()
		if form > 0xffff || form == formImplicitConst || form == formFlagPresent {
			c.fail(fmt.Errorf("form %#x in a table of files", form))
		}
		formats[i].form = uint16(form)
	}
	count := c.uleb()
	if count > limit || count > 0 && len(formats) == 0 {
		c.fail(ErrTooLarge)
	}
	for n := uint64(0); n < count && c.err == nil; n++ {
		var f lineFile
		for _, field := range formats {
			v := c.value(field.form, 0, h.encoding)
			switch field.content {
			case lnctPath:
				f.name = v
			case lnctDirectoryIndex:
				f.dir = v.u
			}
		}
		if c.err == nil {
			add(f)
		}
	}
}

// text returns a string of the tables.
func (h *lineHeader) text(v value) (string, error) {
	if v.form == formString {
		return h.unit.obj.line.text(v.u)
	}
	return h.unit.text(v)
}

// path returns the path of a file by its number.
func (h *lineHeader) path(number uint32) (string, error) {
	if h.files == nil {
		if err := h.readFiles(); err != nil {
			return "", err
		}
	}
	if number == 0 && h.version < 5 {
		return "", nil // none: numbers begin with 1
	}
	if uint64(number) >= uint64(len(h.files)) || !h.files[number].name.ok() {
		return "", fmt.Errorf("%s+%#x: %d: %w", h.unit.obj.line.name, h.off, number, errNoFile)
	}
	f := h.files[number]
	name, err := h.text(f.name)
	if err != nil || path.IsAbs(name) {
		return path.Clean(name), err
	}
	dir := ""
	if f.dir < uint64(len(h.dirs)) && h.dirs[f.dir].ok() {
		if dir, err = h.text(h.dirs[f.dir]); err != nil {
			return "", err
		}
	}
	if !path.IsAbs(dir) && h.unit.root.compDir.ok() {
		base, err := h.unit.text(h.unit.root.compDir)
		if err != nil {
			return "", err
		}
		dir = path.Join(base, dir)
	}
	return path.Join(dir, name), nil
}
