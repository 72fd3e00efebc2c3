// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
)

// Bounds of one abbreviation table; DWARF 5, 7.5.3. Compilers make a few hundred entries of up to twenty attributes, link-time
// optimisation some thousands.
const (
	maxAbbrevs     = 1 << 16
	maxAbbrevAttrs = 1 << 19 // of all entries of a table together
)

var errNoAbbrev = errors.New("unknown abbreviation")

// step is one thing to do with the attributes of an entry: take an attribute, or leave something out.
type step struct {
	attr     uint16 // to take, or 0
	form     uint16 // to take or leave out, or 0
	skip     uint32 // bytes to leave out, where form is 0
	implicit int64
}

// abbrev says how the entries of one code are laid out.
type abbrev struct {
	code     uint64
	tag      uint16
	children bool
	steps    []step
}

// abbrevTable is an abbreviation table, made for units of one encoding.
type abbrevTable struct {
	dense  []abbrev          // code i+1
	sparse map[uint64]abbrev // where codes do not count up from 1
	size   int64             // bytes held
}

func (t *abbrevTable) find(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	if a, ok := t.sparse[code]; ok {
		return &a
	}
	return nil
}

// interesting tells the attributes that steps take.
func interesting(attr uint64) bool {
	switch attr {
	case atName, atStmtList, atLowPC, atHighPC, atCompDir, atAbstractOrigin, atDeclFile, atDeclLine, atSpecification, atRanges,
		atCallFile, atCallLine, atLinkageName, atStrOffsetsBase, atAddrBase, atRnglistsBase, atDwoName, atMIPSLinkage,
		atGNUDwoName, atGNUDwoID, atGNURangesBase, atGNUAddrBase:
		return true
	}
	return false
}

// needed tells which attributes of a tag are looked at while a unit is walked or its head is read.
func needed(tag uint16, attr uint64) bool {
	switch tag {
	case tagSubprogram, tagInlined, 0x11, 0x3c, 0x4a: // compile, partial and skeleton units
		return interesting(attr)
	}
	return attr == atName || attr == atSpecification || attr == atAbstractOrigin
}

// readAbbrevs reads the table at off, up to the code that is wanted when that is not 0.
func readAbbrevs(s *section, off uint64, e encoding, wanted uint64) (*abbrevTable, error) {
	c := s.at(off, s.Size, make([]byte, 4<<10))
	t := &abbrevTable{}
	attrs := 0
	for n := 0; ; n++ {
		code := c.uleb()
		if code == 0 || c.err != nil {
			return t, c.err
		}
		if n == maxAbbrevs || attrs > maxAbbrevAttrs {
			return nil, fmt.Errorf("%s+%#x: abbreviations: %w", s.name, off, ErrTooLarge)
		}
		tag := c.uleb()
		if tag > 0xffff {
			c.fail(fmt.Errorf("tag %#x", tag))
		}
		a := abbrev{code: code, tag: uint16(tag), children: c.u8() != 0}
		attrs += a.readSteps(&c, e)
		t.size += 64 + 24*int64(cap(a.steps))
		t.add(a)
		if code == wanted {
			return t, c.err
		}
	}
}

func (t *abbrevTable) add(a abbrev) {
	if a.code == uint64(len(t.dense))+1 && len(t.sparse) == 0 {
		t.dense = append(t.dense, a)
		return
	}
	if t.sparse == nil {
		t.sparse = make(map[uint64]abbrev)
	}
	if _, known := t.sparse[a.code]; !known && a.code > uint64(len(t.dense)) {
		t.sparse[a.code] = a
	}
}

// readSteps reads the list of attributes and gives its length.
func (a *abbrev) readSteps(c *cursor, e encoding) int {
	for n := 0; ; n++ {
		attr, form := c.uleb(), c.uleb()
		var implicit int64
		if form == formImplicitConst {
			implicit = c.sleb()
		}
		if c.err != nil || attr == 0 && form == 0 || n > maxAbbrevAttrs {
			return n
		}
		if form > 0xffff {
			c.fail(fmt.Errorf("form %#x", form))
			return n
		}
		if needed(a.tag, attr) {
			a.steps = append(a.steps, step{attr: uint16(attr), form: uint16(form), implicit: implicit})
			continue
		}
		size := e.fixedSize(uint16(form))
		if size == 0 {
			continue
		}
		if size < 0 {
			a.steps = append(a.steps, step{form: uint16(form)})
			continue
		}
		if last := len(a.steps) - 1; last >= 0 && a.steps[last].form == 0 {
			a.steps[last].skip += uint32(size)
			continue
		}
		a.steps = append(a.steps, step{skip: uint32(size)})
	}
}

// entry holds the attributes of a debugging information entry that are looked at.
type entry struct {
	name, linkage, lowPC, highPC, ranges       value
	origin, specification                      value // DW_AT_abstract_origin, DW_AT_specification
	declFile, declLine, callFile, callLine     value
	stmtList, compDir, dwoName, dwoID          value
	strOffsets, addrBase, rnglists, gnuRngBase value
}

// read fills an entry. What an abbreviation does not have is left as it is.
func (a *abbrev) read(c *cursor, e encoding, out *entry) {
	for i := range a.steps {
		s := &a.steps[i]
		if s.form == 0 {
			c.skip(uint64(s.skip))
			continue
		}
		if s.attr == 0 {
			c.skipForm(s.form, e)
			continue
		}
		v := c.value(s.form, s.implicit, e)
		if to := out.field(s.attr); to != nil {
			*to = v
		}
	}
}

// pass leaves out an entry.
func (a *abbrev) pass(c *cursor, e encoding) {
	for i := range a.steps {
		s := &a.steps[i]
		if s.form == 0 {
			c.skip(uint64(s.skip))
		} else {
			c.skipForm(s.form, e)
		}
	}
}

func (e *entry) field(attr uint16) *value {
	switch attr {
	case atName:
		return &e.name
	case atLinkageName, atMIPSLinkage:
		return &e.linkage
	case atLowPC:
		return &e.lowPC
	case atHighPC:
		return &e.highPC
	case atRanges:
		return &e.ranges
	case atAbstractOrigin:
		return &e.origin
	case atSpecification:
		return &e.specification
	case atDeclFile:
		return &e.declFile
	case atDeclLine:
		return &e.declLine
	case atCallFile:
		return &e.callFile
	case atCallLine:
		return &e.callLine
	case atStmtList:
		return &e.stmtList
	case atCompDir:
		return &e.compDir
	case atDwoName, atGNUDwoName:
		return &e.dwoName
	case atGNUDwoID:
		return &e.dwoID
	case atStrOffsetsBase:
		return &e.strOffsets
	case atAddrBase, atGNUAddrBase:
		return &e.addrBase
	case atRnglistsBase:
		return &e.rnglists
	case atGNURangesBase:
		return &e.gnuRngBase
	}
	return nil
}
