// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
)

// Sections in the index of a package; DWARF 5, 7.3.5.3, and for version 2, GNU's, which has no range lists.
const (
	columnInfo       = 1
	columnAbbrev     = 3
	columnStrOffsets = 6
	columnRnglists   = 8
	maxColumns       = 16
	maxPackageUnits  = 1 << 20
)

// packageFile is a .dwp file: the split units of a program, found by a hash table.
type packageFile struct {
	splitFile
	index   section // .debug_cu_index
	version uint16
	slots   uint64
	units   uint64
	columns []uint32 // which section each column is for
	hashes  uint64   // offset of the tables in the index
	rows    uint64
	offsets uint64
	sizes   uint64
}

// openPackage opens the package of the given path.
func (s *splitter) openPackage(name string) (*packageFile, error) {
	f, file, sections, err := s.openELF(name)
	if err != nil {
		return nil, err
	}
	p := &packageFile{splitFile: *f}
	p.index.name = ".debug_cu_index"
	found := file.SectionNamed(sections, p.index.name)
	if found == nil {
		return nil, errors.Join(ErrNone, p.close())
	}
	x := s.inflater()
	closeFile := p.close
	p.close = func() error { return errors.Join(x.close(), closeFile()) }
	p.index.Image, err = x.section(file, found, p.index.name)
	if err == nil {
		err = p.readHeader()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), p.close())
	}
	return p, nil
}

// readHeader reads the header of the index.
func (p *packageFile) readHeader() error {
	c := p.index.at(0, p.index.Size, make([]byte, 256))
	p.version = c.u16()
	c.u16()
	if c.err == nil && p.version != 2 && p.version != 5 {
		return fmt.Errorf("%s: %d: %w", p.index.name, p.version, errVersion)
	}
	columns := c.u32()
	p.units, p.slots = uint64(c.u32()), uint64(c.u32())
	if c.err == nil && (columns > maxColumns || p.units > maxPackageUnits || p.slots > 4*maxPackageUnits || p.slots&(p.slots-1) != 0 || p.slots == 0) {
		return fmt.Errorf("%s: %d columns, %d units, %d slots: %w", p.index.name, columns, p.units, p.slots, ErrTooLarge)
	}
	p.hashes = c.offset()
	p.rows = p.hashes + 8*p.slots
	p.offsets = p.rows + 4*p.slots + 4*uint64(columns)
	p.sizes = p.offsets + 4*uint64(columns)*p.units
	c.seek(p.rows + 4*p.slots)
	for range columns {
		p.columns = append(p.columns, c.u32())
	}
	return c.err
}

// object returns the sections of one unit.
func (p *packageFile) object(id uint64, version uint8) (*object, error) {
	row, err := p.find(id)
	if err != nil {
		return nil, err
	}
	o := &object{str: p.obj.str, info: p.obj.info, abbrev: p.obj.abbrev, strOffsets: p.obj.strOffsets, rnglists: p.obj.rnglists}
	for i, column := range p.columns {
		at := 4 * (row*uint64(len(p.columns)) + uint64(i))
		c := p.index.at(p.offsets+at, p.index.Size, make([]byte, 4))
		off := uint64(c.u32())
		c.seek(p.sizes + at)
		size := uint64(c.u32())
		if c.err != nil {
			return nil, c.err
		}
		var to *section
		switch {
		case column == columnInfo:
			to = &o.info
		case column == columnAbbrev:
			to = &o.abbrev
		case column == columnStrOffsets:
			to = &o.strOffsets
		case column == columnRnglists && version >= 5:
			to = &o.rnglists
		default:
			continue
		}
		if *to, err = to.part(off, size); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// find returns the row of a unit; DWARF 5, 7.3.5.3.
func (p *packageFile) find(id uint64) (uint64, error) {
	mask := p.slots - 1
	slot, step := id&mask, (id>>32)&mask|1
	for range p.slots {
		c := p.index.at(p.rows+4*slot, p.index.Size, make([]byte, 8))
		row := uint64(c.u32())
		if c.err != nil {
			return 0, c.err
		}
		if row == 0 || row > p.units {
			break
		}
		c = p.index.at(p.hashes+8*slot, p.index.Size, make([]byte, 8))
		if c.u64() == id && c.err == nil {
			return row - 1, nil
		}
		slot = (slot + step) & mask
	}
	return 0, fmt.Errorf("%s: %#x: %w", p.index.name, id, errNoSplit)
}
