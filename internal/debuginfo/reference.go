// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "fmt"

// A reference to an entry is its offset in .debug_info; altReference is set for that of the alternate file.
const altReference = 1 << 63

// maxHops bounds the references that are followed for the name of one function.
const maxHops = 16

// reference returns the entry that an attribute refers to, or otherwise if that is unknown.
func (u *unit) reference(v value, otherwise uint64) uint64 {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if v.u < u.end-u.off {
			return u.off + v.u
		}
	case formRefAddr:
		if v.u < u.obj.info.Size {
			return v.u
		}
	case formGNURefAlt, formRefSup4, formRefSup8:
		if v.u < altReference {
			return v.u | altReference
		}
	}
	return otherwise
}

// function is what entries contain about a function.
type function struct {
	name     string // as in the source, without its scope
	linkage  string // the linker's name, or empty
	declUnit *unit  // the unit of declFile; nil when the file is not known
	declFile uint32
	declLine uint32
}

// function reads the entry of a function and those that it refers to. What was read before an error is valid.
func (o *object) function(ref uint64) (f function, err error) {
	for range maxHops {
		target := o
		if ref&altReference != 0 {
			if target, err = o.alternate(); err != nil {
				return f, err
			}
		}
		next, u, err := target.functionEntry(ref&^altReference, &f)
		if err != nil || next == 0 {
			return f, err
		}
		if u != nil && target != o {
			o = target // references of the alternate file are within itself
		}
		ref = next
	}
	return f, fmt.Errorf("%s+%#x: more than %d references: %w", o.info.name, ref&^altReference, maxHops, errReference)
}

// functionEntry takes from one entry what is not known yet and returns the next one to read, 0 when there is none.
func (o *object) functionEntry(off uint64, f *function) (next uint64, u *unit, err error) {
	if u, err = o.unitAt(off); err != nil {
		return 0, nil, err
	}
	abbrevs, err := o.allAbbrevs(u)
	if err != nil {
		return 0, nil, err
	}
	c := o.info.at(off, u.end, o.spot[:])
	a := abbrevs.find(c.uleb())
	if a == nil {
		return 0, nil, fmt.Errorf("%s+%#x: %w", o.info.name, off, errNoAbbrev)
	}
	var e entry
	if a.read(&c, u.encoding, &e); c.err != nil {
		return 0, nil, c.err
	}
	if f.name == "" && e.name.ok() {
		if f.name, err = u.text(e.name); err != nil {
			return 0, nil, err
		}
	}
	if f.linkage == "" && e.linkage.ok() {
		if f.linkage, err = u.text(e.linkage); err != nil {
			return 0, nil, err
		}
	}
	if f.declLine == 0 {
		f.declLine = e.declLine.number()
	}
	if f.declUnit == nil && e.declFile.ok() {
		f.declUnit, f.declFile = u, e.declFile.number()
	}
	for _, v := range []value{e.origin, e.specification} {
		if !v.ok() {
			continue
		}
		if next = u.reference(v, off); next != off {
			return next, u, nil
		}
	}
	return 0, u, nil
}
