// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
)

// Bounds of one abbreviation table; DWARF 5, 7.5.3. Compilers make a few hundred entries of up to twenty attributes, link-time optimisation
// some thousands.
// optimisation some thousands.
const (
	maxAbbrevs     = 1 << 16
	maxAbbrevAttrs = 1 << 19 // of all entries of a table together
)

var errNoAbbrev = errors.New("unknown abbreviation")

// step is an operation on the attributes of an entry: read an attribute, or skip something.
type step struct {
	attr     uint16 // to read, or 0
	form     uint16 // to read or skip, or 0
	skip     uint32 // bytes to skip, where form is 0
	implicit int64
}

// abbrev is the layout of the entries of one code.
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

// interesting reports whether steps read an attribute.
func interesting(attr uint64) bool {
	switch attr {
	case atName, atStmtList, atLowPC, atHighPC, atCompDir, atAbstractOrigin, atDeclFile, atDeclLine, atSpecification, atRanges,
		atCallFile, atCallLine, atLinkageName, atStrOffsetsBase, atAddrBase, atRnglistsBase, atDwoName, atMIPSLinkage,
		atGNUDwoName, atGNUDwoID, atGNURangesBase, atGNUAddrBase:
		return true
	}
	return false
}

// needed reports whether an attribute of a tag is needed while a unit is walked or its first entry is read.
func needed(tag uint16, attr uint64) bool {
	switch tag {
	case tagSubprogram, tagInlined, 0x11, 0x3c, 0x4a: // compile, partial and skeleton units
		return interesting(attr)
	}
	return attr == atName || attr == atSpecification || attr == atAbstractOrigin
}

// abbrevReader reads the table at an offset.
type abbrevReader struct {
	cursor
	name  string
	off   uint64
	n     int // entries
	attrs int // of all entries
}

func newAbbrevReader(s *section, off uint64, window []byte) *abbrevReader {
	return &abbrevReader{cursor: s.at(off, s.Size, window), name: s.name, off: off}
}

// next reads the head of an entry; its attributes follow. ok: there is one.
func (r *abbrevReader) next() (a abbrev, ok bool, err error) {
	code := r.uleb()
	if code == 0 || r.err != nil {
		return a, false, r.err
	}
	if r.n == maxAbbrevs || r.attrs > maxAbbrevAttrs {
		return a, false, fmt.Errorf("%s+%#x: abbreviations: %w", r.name, r.off, ErrTooLarge)
	}
	r.n++
	tag := r.uleb()
	if tag > 0xffff {
		r.fail(fmt.Errorf("tag %#x", tag))
	}
	return abbrev{code: code, tag: uint16(tag), children: r.u8() != 0}, true, nil
}

// readAbbrevs reads the table at off.
func readAbbrevs(s *section, off uint64, e encoding) (*abbrevTable, error) {
	r := newAbbrevReader(s, off, make([]byte, 4<<10))
	t := &abbrevTable{}
	for {
		a, ok, err := r.next()
		switch {
		case errors.Is(err, ErrTooLarge):
			return nil, err
		case !ok:
			return t, err
		}
		r.readSteps(&a, e)
		t.size += 64 + 24*int64(cap(a.steps))
		t.add(a)
	}
}

// findAbbrev reads one abbreviation of the table at off and keeps none of those before it; nil: there is none.
func findAbbrev(s *section, off uint64, e encoding, code uint64, window []byte) (*abbrev, error) {
	r := newAbbrevReader(s, off, window)
	for {
		a, ok, err := r.next()
		if !ok {
			return nil, err
		}
		if a.code == code {
			r.readSteps(&a, e)
			return &a, r.err
		}
		r.passSteps()
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

// attribute reads the next attribute of an entry, which has n so far; ok: there is one.
func (r *abbrevReader) attribute(n int) (attr, form uint64, implicit int64, ok bool) {
	attr, form = r.uleb(), r.uleb()
	if form == formImplicitConst {
		implicit = r.sleb()
	}
	return attr, form, implicit, r.err == nil && (attr != 0 || form != 0) && n <= maxAbbrevAttrs
}

// readSteps reads the list of attributes of an entry.
func (r *abbrevReader) readSteps(a *abbrev, e encoding) {
	for n := 0; ; n++ {
		attr, form, implicit, ok := r.attribute(n)
		if !ok {
			r.attrs += n
			return
		}
		if form > 0xffff {
			r.fail(fmt.Errorf("form %#x", form))
			r.attrs += n
			return
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

// passSteps skips the list of attributes of an entry.
func (r *abbrevReader) passSteps() {
	for n := 0; ; n++ {
		if _, _, _, ok := r.attribute(n); !ok {
			r.attrs += n
			return
		}
	}
}

// entry holds the needed attributes of a debugging information entry.
type entry struct {
	name, linkage, lowPC, highPC, ranges       value
	origin, specification                      value // DW_AT_abstract_origin, DW_AT_specification
	declFile, declLine, callFile, callLine     value
	stmtList, compDir, dwoName, dwoID          value
	strOffsets, addrBase, rnglists, gnuRngBase value
}

// read fills an entry. Attributes that an abbreviation does not have stay as they are.
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

// pass skips an entry.
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
