// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"fmt"
)

// Pointer encodings of .eh_frame, DW_EH_PE_* of LSB Core 5.0, 10.5.1.
const (
	peAbsolute = 0x00
	peULEB     = 0x01
	peU16      = 0x02
	peU32      = 0x03
	peU64      = 0x04
	peSLEB     = 0x09
	peS16      = 0x0a
	peS32      = 0x0b
	peS64      = 0x0c
	peFormat   = 0x0f
	peBase     = 0x70
	pePCRel    = 0x10
	peDataRel  = 0x30
	peOmit     = 0xff
)

var errEncoding = errors.New("pointer encoding not supported")

// pointer reads a pointer that is kept at the address at; data is what
// data-relative ones count from, 0 when that is not known.
func (c *cursor) pointer(encoding byte, at, data uint64) (uint64, error) {
	v, err := c.value(encoding & peFormat)
	if err != nil {
		return 0, err
	}
	switch base := encoding &^ peFormat; {
	case base == 0:
	case base == pePCRel:
		v += at
	case base == peDataRel && data != 0:
		v += data
	default: // indirect, relative to text or function: compilers do not write them here
		return 0, fmt.Errorf("%#x: %w", encoding, errEncoding)
	}
	if c.bad {
		return 0, errShort
	}
	return v, nil
}

// value reads a number in one of the formats of pointers.
func (c *cursor) value(format byte) (uint64, error) {
	switch format {
	case peAbsolute, peU64, peS64:
		return c.u64(), nil
	case peULEB:
		return c.uleb(), nil
	case peU16:
		return uint64(c.u16()), nil
	case peU32:
		return uint64(c.u32()), nil
	case peSLEB:
		return uint64(c.sleb()), nil
	case peS16:
		return uint64(int16(c.u16())), nil
	case peS32:
		return uint64(int32(c.u32())), nil
	}
	return 0, fmt.Errorf("%#x: %w", format, errEncoding)
}
