// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	maxIndex   = 1 << 21 // ranges of code of all units together
	indexBytes = 12
	lookBack   = 16 // ranges looked back over for one that encloses an address
)

// codeRange is where a unit has code.
type codeRange struct {
	low, high uint32 // from the start of the text
	unit      uint32 // index in the object's starts
}

// index finds the units that may contain an address.
type index struct {
	text   elfimage.Span
	ranges []codeRange // sorted
}

// makeIndex reads the first entry of every unit. What it found before an error is kept and valid.
func makeIndex(o *object) (*index, error) {
	x := &index{text: o.text}
	var errs []error
	silent := map[uint64]uint32{} // units without ranges; DWARF 2 can only name one range
	err := o.scan(func(u *unit) error {
		if u.isType() || u.kind == unitPartial {
			return nil
		}
		number := uint32(len(o.starts) - 1)
		before := len(x.ranges)
		err := u.open()
		if err == nil {
			err = u.eachRange(&u.root, func(low, high uint64) error { return x.add(low, high, number) })
		}
		if errors.Is(err, ErrTooLarge) {
			return err
		}
		if err != nil && len(errs) < 4 {
			errs = append(errs, err)
		}
		if !u.root.ranges.ok() && u.root.stmtList.ok() && (u.version == 2 || len(x.ranges) == before && !u.root.highPC.ok()) {
			silent[u.off] = number
		}
		return nil
	})
	if err != nil {
		errs = append(errs, err)
	}
	if len(silent) > 0 {
		if err := x.addAranges(&o.aranges, silent); err != nil {
			errs = append(errs, err)
		}
	}
	x.settle()
	return x, errors.Join(errs...)
}

func (x *index) add(low, high uint64, unit uint32) error {
	if low < x.text.Start || low >= x.text.End || low-x.text.Start > math.MaxUint32 {
		return nil // dropped by the linker
	}
	r := codeRange{uint32(low - x.text.Start), uint32(min(high-x.text.Start, math.MaxUint32)), unit}
	if n := len(x.ranges); n > 0 && x.ranges[n-1].unit == unit && x.ranges[n-1].high == r.low {
		x.ranges[n-1].high = r.high
		return nil
	}
	if len(x.ranges) == maxIndex {
		return fmt.Errorf("%d ranges of units: %w", maxIndex, ErrTooLarge)
	}
	x.ranges = append(x.ranges, r)
	return nil
}

// settle sorts the ranges, and joins those of one unit that are separated only by alignment.
func (x *index) settle() {
	slices.SortFunc(x.ranges, func(a, b codeRange) int {
		if c := cmp.Compare(a.low, b.low); c != 0 {
			return c
		}
		if c := cmp.Compare(b.high, a.high); c != 0 {
			return c
		}
		return cmp.Compare(a.unit, b.unit)
	})
	kept := x.ranges[:0]
	for _, r := range x.ranges {
		if n := len(kept); n > 0 && kept[n-1].unit == r.unit && r.low >= kept[n-1].low && r.low-kept[n-1].low <= kept[n-1].high-kept[n-1].low+15 {
			kept[n-1].high = max(kept[n-1].high, r.high)
			continue
		}
		kept = append(kept, r)
	}
	x.ranges = slices.Clone(kept)
}

// candidates calls visit with the units that may contain an address, the likeliest first, until it returns true.
func (x *index) candidates(addr uint32, visit func(unit uint32) bool) {
	i, _ := slices.BinarySearchFunc(x.ranges, addr, func(r codeRange, a uint32) int {
		if r.low <= a {
			return -1
		}
		return 1
	})
	for stop := max(i-lookBack, 0); i > stop; i-- {
		if r := x.ranges[i-1]; addr < r.high && visit(r.unit) {
			return
		}
	}
}

func (x *index) bytes() int64 { return int64(cap(x.ranges)) * indexBytes }

// addAranges takes the ranges of some units from .debug_aranges; DWARF 5, 6.1.2.
func (x *index) addAranges(s *section, wanted map[uint64]uint32) error {
	c := s.at(0, s.Size, make([]byte, 4<<10))
	for c.left() > 0 && c.err == nil {
		start := c.offset()
		length, size := c.initialLength()
		end := c.offset() + length
		if length > c.left() {
			c.fail(errShort)
		}
		c.u16() // version
		unit, known := wanted[c.fixed(size)]
		addrSize, segment := int(c.u8()), c.u8()
		if c.err != nil || segment != 0 || addrSize != 4 && addrSize != 8 || !known {
			c.seek(end)
			continue
		}
		if odd := (c.offset() - start) % uint64(2*addrSize); odd != 0 {
			c.skip(uint64(2*addrSize) - odd)
		}
		for c.err == nil && c.offset() < end {
			low, n := c.fixed(addrSize), c.fixed(addrSize)
			if low == 0 && n == 0 {
				break
			}
			if low+n > low {
				if err := x.add(low, low+n, unit); err != nil {
					return err
				}
			}
		}
		c.seek(end)
	}
	return c.err
}
