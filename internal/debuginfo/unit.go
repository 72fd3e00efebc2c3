// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
)

var errVersion = errors.New("unknown version")

// unit is a unit of .debug_info: a translation unit, or a part that several share.
type unit struct {
	obj *object
	encoding
	kind          uint8
	off, die, end uint64 // of the header, of the first entry, of what follows
	abbrevOff     uint64
	dwoID         uint64 // joins a skeleton and its split unit
	skeleton      *unit  // of a split unit, its part in the program
	abbrevs       *abbrevTable
	root          entry
	low           uint64 // what offsets of ranges count from
	strBase       uint64 // of DW_FORM_strx, in .debug_str_offsets
	addrBase      uint64 // of DW_FORM_addrx, in .debug_addr
	rnglistsBase  uint64 // of DW_FORM_rnglistx, in .debug_rnglists
	rangesBase    uint64 // added to offsets in .debug_ranges, GNU's split units
}

// header reads the header of the unit at off; DWARF 5, 7.5.1.
func (o *object) header(off uint64) (*unit, error) {
	c := o.info.at(off, o.info.Size, o.spot[:])
	u := &unit{obj: o, off: off, kind: unitCompile}
	length, size := c.initialLength()
	start := c.offset()
	u.offsetSize = uint8(size)
	u.version = uint8(min(c.u16(), 255))
	if c.err == nil && (u.version < 2 || u.version > 5) {
		return nil, fmt.Errorf("%s+%#x: %d: %w", o.info.name, off, u.version, errVersion)
	}
	if u.version == 5 {
		u.kind, u.addrSize = c.u8(), c.u8()
		u.abbrevOff = c.fixed(size)
		if u.kind == unitSkeleton || u.kind == unitSplitCompile || u.kind == unitType || u.kind == unitSplitType {
			u.dwoID = c.u64() // of a type unit its signature, which is not used
		}
		if u.kind == unitType || u.kind == unitSplitType {
			c.skip(uint64(size))
		}
	} else {
		u.abbrevOff, u.addrSize = c.fixed(size), c.u8()
	}
	if c.err == nil && (length > o.info.Size-start || length < c.offset()-start) {
		c.fail(errShort)
	}
	if c.err == nil && u.addrSize != 4 && u.addrSize != 8 {
		c.fail(fmt.Errorf("addresses of %d bytes", u.addrSize))
	}
	u.die, u.end = c.offset(), start+length
	return u, c.err
}

// isType reports whether a unit only describes types.
func (u *unit) isType() bool { return u.kind == unitType || u.kind == unitSplitType }

// open reads the first entry.
func (u *unit) open() error {
	c := u.obj.info.at(u.die, u.end, u.obj.spot[:])
	code := c.uleb()
	if c.err != nil || code == 0 {
		return c.err
	}
	a, err := u.obj.oneAbbrev(u, code)
	if err != nil {
		return err
	}
	a.read(&c, u.encoding, &u.root)
	if c.err != nil {
		return c.err
	}
	return u.settle()
}

// settle finds the bases of the unit's forms.
func (u *unit) settle() error {
	r := &u.root
	head := uint64(0) // the header of the tables, since DWARF 5
	if u.version == 5 {
		head = 8
		if u.offsetSize == 8 {
			head = 16
		}
		u.rnglistsBase = head + 4
	}
	u.strBase, u.addrBase = head, head
	for _, b := range []struct {
		v  value
		to *uint64
	}{{r.strOffsets, &u.strBase}, {r.addrBase, &u.addrBase}, {r.rnglists, &u.rnglistsBase}, {r.gnuRngBase, &u.rangesBase}} {
		if b.v.ok() {
			*b.to = b.v.u
		}
	}
	if u.skeleton != nil {
		u.addrBase, u.low, u.rangesBase = u.skeleton.addrBase, u.skeleton.low, u.skeleton.rangesBase
		return nil
	}
	if u.dwoID == 0 && r.dwoID.ok() {
		u.dwoID = r.dwoID.u
	}
	if !r.lowPC.ok() {
		return nil
	}
	var err error
	u.low, err = u.address(r.lowPC)
	return err
}

// program is the unit whose addresses, ranges and lines the unit uses.
func (u *unit) program() *unit {
	if u.skeleton != nil {
		return u.skeleton
	}
	return u
}

// address returns the address that an attribute refers to.
func (u *unit) address(v value) (uint64, error) {
	switch v.form {
	case formAddr:
		return v.u, nil
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return u.indexedAddress(v.u)
	}
	return 0, fmt.Errorf("unit at %s+%#x: form %#x of an address", u.obj.info.name, u.off, v.form)
}

// indexedAddress reads .debug_addr.
func (u *unit) indexedAddress(index uint64) (uint64, error) {
	s := &u.program().obj.addr
	size := uint64(u.addrSize)
	if index > s.Size/size {
		return 0, fmt.Errorf("%s: index %d: %w", s.name, index, errShort)
	}
	var b [8]byte
	if err := s.Read(b[:size], u.addrBase+index*size); err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return le.Uint64(b[:]), nil // the upper half is zero when addresses have 4 bytes
}

// text returns the string that an attribute refers to.
func (u *unit) text(v value) (string, error) {
	o := u.obj
	switch v.form {
	case formString:
		return o.info.text(v.u)
	case formStrp:
		return o.str.text(v.u)
	case formLineStrp:
		return o.lineStr.text(v.u)
	case formStrpSup, formGNUStrpAlt:
		alt, err := o.alternate()
		if err != nil {
			return "", err
		}
		return alt.str.text(v.u)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		size := uint64(u.offsetSize)
		if v.u > o.strOffsets.Size/size {
			return "", fmt.Errorf("%s: index %d: %w", o.strOffsets.name, v.u, errShort)
		}
		c := o.strOffsets.at(u.strBase+v.u*size, o.strOffsets.Size, make([]byte, 8))
		off := c.fixed(int(size))
		if c.err != nil {
			return "", c.err
		}
		return o.str.text(off)
	}
	return "", fmt.Errorf("unit at %s+%#x: form %#x of a text", o.info.name, u.off, v.form)
}
