// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"math"
)

// Entries of .debug_rnglists; DWARF 5, 7.25.
const (
	rleEndOfList    = 0x00
	rleBaseAddressx = 0x01
	rleStartxEndx   = 0x02
	rleStartxLength = 0x03
	rleOffsetPair   = 0x04
	rleBaseAddress  = 0x05
	rleStartEnd     = 0x06
	rleStartLength  = 0x07
)

// maxRangeList bounds the entries of one list. Units of functions in sections of their own have one for each, some ten thousand.
const maxRangeList = 1 << 20

// eachRange calls visit with the ranges of code of an entry, [low, high), until it returns an error.
func (u *unit) eachRange(e *entry, visit func(low, high uint64) error) error {
	if e.ranges.ok() {
		if u.version >= 5 {
			return u.eachListed(e.ranges, visit)
		}
		return u.eachOldListed(e.ranges.u, visit)
	}
	if !e.lowPC.ok() || !e.highPC.ok() {
		return nil
	}
	low, err := u.address(e.lowPC)
	if err != nil {
		return err
	}
	if e.highPC.constant() {
		if high := low + e.highPC.u; high > low {
			return visit(low, high)
		}
		return nil
	}
	high, err := u.address(e.highPC)
	if err != nil || high <= low {
		return err
	}
	return visit(low, high)
}

// eachOldListed reads a list of .debug_ranges; DWARF 4, 2.17.3.
func (u *unit) eachOldListed(off uint64, visit func(low, high uint64) error) error {
	s := &u.program().obj.ranges
	if u.skeleton != nil {
		off += u.rangesBase
	}
	c := s.at(off, s.Size, u.obj.list[:])
	size, all := int(u.addrSize), uint64(math.MaxUint64)
	if size == 4 {
		all = math.MaxUint32
	}
	base := u.low
	for range maxRangeList {
		low, high := c.fixed(size), c.fixed(size)
		switch {
		case c.err != nil:
			return c.err
		case low == 0 && high == 0:
			return nil
		case low == all:
			base = high
		case low < high:
			if err := visit((base+low)&all, (base+high)&all); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%s+%#x: %w", s.name, off, ErrTooLarge)
}

// eachListed reads a list of .debug_rnglists.
func (u *unit) eachListed(v value, visit func(low, high uint64) error) error {
	s := &u.obj.rnglists
	off := v.u
	if v.form == formRnglistx {
		size := uint64(u.offsetSize)
		if v.u > s.Size/size {
			return fmt.Errorf("%s: index %d: %w", s.name, v.u, errShort)
		}
		c := s.at(u.rnglistsBase+v.u*size, s.Size, u.obj.list[:8])
		off = c.fixed(int(size)) + u.rnglistsBase
		if c.err != nil {
			return c.err
		}
	}
	c := s.at(off, s.Size, u.obj.list[:])
	l := rangeList{unit: u, c: &c, base: u.low}
	for range maxRangeList {
		low, high, more := l.next()
		if c.err != nil || !more {
			return c.err
		}
		if low < high {
			if err := visit(low, high); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%s+%#x: %w", s.name, off, ErrTooLarge)
}

// rangeList is a list that is being read.
type rangeList struct {
	unit *unit
	c    *cursor
	base uint64
}

// next returns the next range, an empty one when an entry only changes the base.
func (l *rangeList) next() (low, high uint64, more bool) {
	c, size := l.c, int(l.unit.addrSize)
	switch kind := c.u8(); kind {
	case rleEndOfList:
		return 0, 0, false
	case rleBaseAddressx:
		l.base = l.indexed()
	case rleBaseAddress:
		l.base = c.fixed(size)
	case rleStartxEndx:
		low = l.indexed()
		high = l.indexed()
	case rleStartxLength:
		low = l.indexed()
		high = low + c.uleb()
	case rleOffsetPair:
		low = l.base + c.uleb()
		high = l.base + c.uleb()
	case rleStartEnd:
		low = c.fixed(size)
		high = c.fixed(size)
	case rleStartLength:
		low = c.fixed(size)
		high = low + c.uleb()
	default:
		c.fail(fmt.Errorf("unknown entry %#x of a range list", kind))
	}
	return low, high, true
}

func (l *rangeList) indexed() uint64 {
	addr, err := l.unit.indexedAddress(l.c.uleb())
	if err != nil && l.c.err == nil {
		l.c.fail(err)
	}
	return addr
}
