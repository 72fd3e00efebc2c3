// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// ErrTooLarge is the cause when something would exceed its bound.
var ErrTooLarge = errors.New("exceeds the bound")

// ErrNone is the cause when a file has no debug information.
var ErrNone = errors.New("no debug information")

var (
	errNoAlternate = errors.New("the common debug file is not there")
	errReference   = errors.New("reference into nothing")
)

const (
	maxUnits       = 1 << 18
	maxAbbrevBytes = 4 << 20 // of abbreviation tables kept for later units
)

// object is the debug sections of one file, or the part of them that belongs to a split unit.
type object struct {
	info, abbrev, line, lineStr, str, strOffsets, addr, ranges, rnglists, aranges section

	text   elfimage.Span // from the first to the last address of code
	starts []uint64      // of the units in .debug_info, ascending; nil until scan has found them
	open   func() (*object, error)
	alt    *object
	altErr error

	abbrevs     map[abbrevKey]*abbrevTable
	abbrevBytes int64

	// Buffers for reading, each used by one function at a time.
	spot  [spotWindow]byte
	list  [4 << 10]byte
	codes [4 << 10]byte
}

type abbrevKey struct {
	off uint64
	encoding
}

// alternate returns the file that several share, which dwz makes: .gnu_debugaltlink, or .debug_sup of DWARF 5.
func (o *object) alternate() (*object, error) {
	if o.open == nil {
		return nil, errNoAlternate
	}
	if o.alt == nil && o.altErr == nil {
		o.alt, o.altErr = o.open()
	}
	return o.alt, o.altErr
}

// oneAbbrev finds one abbreviation of a unit, without making the whole table.
func (o *object) oneAbbrev(u *unit, code uint64) (*abbrev, error) {
	if u.abbrevs == nil {
		u.abbrevs = o.abbrevs[abbrevKey{u.abbrevOff, u.encoding}]
	}
	var a *abbrev
	var err error
	if u.abbrevs != nil {
		a = u.abbrevs.find(code)
	} else {
		a, err = findAbbrev(&o.abbrev, u.abbrevOff, u.encoding, code, o.codes[:])
	}
	if a != nil || err != nil {
		return a, err
	}
	return nil, fmt.Errorf("unit at %s+%#x: %d: %w", o.info.name, u.off, code, errNoAbbrev)
}

// allAbbrevs returns the abbreviations of a unit.
func (o *object) allAbbrevs(u *unit) (*abbrevTable, error) {
	if u.abbrevs != nil {
		return u.abbrevs, nil
	}
	key := abbrevKey{u.abbrevOff, u.encoding}
	t := o.abbrevs[key]
	if t == nil {
		var err error
		if t, err = readAbbrevs(&o.abbrev, u.abbrevOff, u.encoding); err != nil {
			return nil, err
		}
		if o.abbrevs == nil || o.abbrevBytes+t.size > maxAbbrevBytes {
			o.abbrevs, o.abbrevBytes = make(map[abbrevKey]*abbrevTable), 0
		}
		o.abbrevs[key] = t
		o.abbrevBytes += t.size
	}
	u.abbrevs = t
	return t, nil
}

// scan calls visit with each unit's header and records the offsets. A unit that cannot be parsed ends it, since those after it cannot be
// found.
func (o *object) scan(visit func(*unit) error) error {
	o.starts = []uint64{}
	for off := uint64(0); off+7 <= o.info.Size; {
		if len(o.starts) == maxUnits {
			return fmt.Errorf("%s: %d units: %w of %d", o.info.name, len(o.starts), ErrTooLarge, maxUnits)
		}
		u, err := o.header(off)
		if err != nil {
			return err
		}
		o.starts = append(o.starts, off)
		if visit != nil {
			if err := visit(u); err != nil {
				return err
			}
		}
		off = u.end
	}
	return nil
}

// unitAt returns the unit that contains an offset of .debug_info, opened.
func (o *object) unitAt(off uint64) (*unit, error) {
	if o.starts == nil {
		if err := o.scan(nil); err != nil && len(o.starts) == 0 {
			return nil, err
		}
	}
	i := sort.Search(len(o.starts), func(i int) bool { return o.starts[i] > off }) - 1
	if i < 0 {
		return nil, fmt.Errorf("%s+%#x: %w", o.info.name, off, errReference)
	}
	u, err := o.header(o.starts[i])
	if err != nil {
		return nil, err
	}
	if off >= u.end || off < u.die {
		return nil, fmt.Errorf("%s+%#x: %w", o.info.name, off, errReference)
	}
	return u, u.open()
}

// bytes is the memory in use apart from the tables of units.
func (o *object) bytes() int64 {
	n := int64(len(o.starts))*8 + o.abbrevBytes + 12<<10
	if o.alt != nil {
		n += o.alt.bytes()
	}
	return n
}
