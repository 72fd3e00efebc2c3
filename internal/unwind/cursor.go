// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	enc "encoding/binary"
	"errors"
)

var le = enc.LittleEndian

// errShort is the cause when a structure ends within a field, or a LEB128
// number has more than 64 bits.
var errShort = errors.New("field out of bounds")

// cursor reads fields one after the other. The first that is out of bounds makes it bad; from then on it returns zeros.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() uint8 {
	if len(c.b) == 0 {
		c.bad = true
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// uleb reads an unsigned LEB128 number.
func (c *cursor) uleb() uint64 {
	v, n := enc.Uvarint(c.b) // the same encoding
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); shift < 64; shift += 7 {
		b := c.u8()
		v |= int64(b&0x7f) << shift
		if b&0x80 != 0 {
			continue
		}
		if b&0x40 != 0 && shift+7 < 64 {
			v |= -1 << (shift + 7)
		}
		return v
	}
	c.bad, c.b = true, nil
	return 0
}

// text reads up to a zero byte.
func (c *cursor) text() string {
	for i, b := range c.b {
		if b == 0 {
			out := string(c.b[:i])
			c.b = c.b[i+1:]
			return out
		}
	}
	c.bad, c.b = true, nil
	return ""
}
