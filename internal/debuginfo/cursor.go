// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	enc "encoding/binary"
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

var le = enc.LittleEndian

var (
	// errShort is the cause when a structure ends within a field.
	errShort = errors.New("field out of bounds")
	// errLEB is the cause when a LEB128 number has more than 64 bits.
	errLEB = errors.New("number of more than 64 bits")
)

const (
	streamWindow = 64 << 10 // bytes that a cursor reads at once when it reads a whole unit
	spotWindow   = 512      // bytes read around a single entry
	maxText      = 8 << 10  // bytes of a name or path that are read; the rest is cut off
)

// section is the content of one debug section; one that is missing has no bytes.
type section struct {
	elfimage.Image
	name string
}

// at makes a cursor that reads from off up to end. The window is the buffer for what it reads at once.
func (s *section) at(off, end uint64, window []byte) cursor {
	c := cursor{src: s, buf: window, next: off, end: min(end, s.Size)}
	if off > s.Size {
		c.fail(errShort)
	}
	return c
}

// spot makes a cursor for a few bytes at off.
func (s *section) spot(off uint64) cursor { return s.at(off, s.Size, make([]byte, spotWindow)) }

// text reads the string at off.
func (s *section) text(off uint64) (string, error) {
	c := s.spot(off)
	out := c.text()
	return out, c.err
}

// cursor reads fields of a section one after the other, through a window. The first error is kept; from then on it returns zeros.
type cursor struct {
	src  *section
	b    []byte // of the window, what was not read yet
	buf  []byte // the window
	next uint64 // offset in the section of the window's end
	end  uint64 // offset where reading must stop
	err  error
}

// offset is the offset in the section of the next field.
func (c *cursor) offset() uint64 { return c.next - uint64(len(c.b)) }

// left is the number of bytes before the end.
func (c *cursor) left() uint64 { return c.end - min(c.end, c.offset()) }

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%s+%#x: %w", c.src.name, c.offset(), err)
	}
	c.next -= uint64(len(c.b))
	c.b = nil
	c.end = c.next
}

// need makes n bytes available in the window, at most its size.
func (c *cursor) need(n int) bool { return len(c.b) >= n || c.fill(n) }

func (c *cursor) fill(n int) bool {
	if c.err != nil {
		return false
	}
	if c.left() < uint64(n) || n > len(c.buf) {
		c.fail(errShort)
		return false
	}
	off := c.offset()
	size := min(uint64(len(c.buf)), c.end-off)
	if err := c.src.Read(c.buf[:size], off); err != nil {
		c.fail(err)
		return false
	}
	c.b, c.next = c.buf[:size], off+size
	return true
}

// skip skips n bytes.
func (c *cursor) skip(n uint64) {
	if n <= uint64(len(c.b)) {
		c.b = c.b[n:]
		return
	}
	if c.err != nil || n > c.left() {
		c.fail(errShort)
		return
	}
	c.next = c.offset() + n
	c.b = nil
}

// seek moves to an offset of the section.
func (c *cursor) seek(off uint64) {
	if off > c.end {
		c.fail(errShort)
		return
	}
	if start := c.next - uint64(len(c.b)); off >= start && off <= c.next {
		c.b = c.b[off-start:]
		return
	}
	c.next, c.b = off, nil
}

func (c *cursor) u8() uint8 {
	if !c.need(1) {
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) u16() uint16 {
	if !c.need(2) {
		return 0
	}
	v := le.Uint16(c.b)
	c.b = c.b[2:]
	return v
}

func (c *cursor) u32() uint32 {
	if !c.need(4) {
		return 0
	}
	v := le.Uint32(c.b)
	c.b = c.b[4:]
	return v
}

func (c *cursor) u64() uint64 {
	if !c.need(8) {
		return 0
	}
	v := le.Uint64(c.b)
	c.b = c.b[8:]
	return v
}

// fixed reads an unsigned number of 1, 2, 3, 4 or 8 bytes.
func (c *cursor) fixed(size int) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 3:
		low := uint64(c.u16())
		return low | uint64(c.u8())<<16
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.fail(fmt.Errorf("number of %d bytes", size))
	return 0
}

// uleb reads an unsigned LEB128 number.
func (c *cursor) uleb() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 {
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	var v uint64
	for shift := uint(0); shift < 70; shift += 7 {
		b := c.u8()
		if c.err != nil {
			return 0
		}
		if shift == 63 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
	c.fail(errLEB)
	return 0
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); shift < 70; shift += 7 {
		b := c.u8()
		if c.err != nil {
			return 0
		}
		v |= int64(b&0x7f) << shift
		if b&0x80 != 0 {
			continue
		}
		if b&0x40 != 0 && shift+7 < 64 {
			v |= -1 << (shift + 7)
		}
		return v
	}
	c.fail(errLEB)
	return 0
}

// skipLEB skips a LEB128 number.
func (c *cursor) skipLEB() {
	for range 10 {
		if c.u8() < 0x80 {
			return
		}
	}
	c.fail(errLEB)
}

// initialLength reads the length at the head of a unit and whether its offsets have 8 bytes; DWARF 5, 7.4.
func (c *cursor) initialLength() (length uint64, offsetSize int) {
	n := uint64(c.u32())
	switch {
	case n == 0xffffffff:
		return c.u64(), 8
	case n >= 0xfffffff0:
		c.fail(errors.New("reserved length"))
	}
	return n, 4
}

// text reads a string that ends with a zero byte; of a long one only the beginning is kept.
func (c *cursor) text() string {
	var long []byte
	for c.need(1) {
		i := bytes.IndexByte(c.b, 0)
		if i >= 0 && long == nil {
			out := string(c.b[:min(i, maxText)])
			c.b = c.b[i+1:]
			return out
		}
		n := len(c.b)
		if i >= 0 {
			n = i
		}
		long = append(long, c.b[:min(n, maxText-len(long))]...)
		if i >= 0 {
			c.b = c.b[i+1:]
			return string(long)
		}
		c.b = c.b[n:]
	}
	return ""
}

// skipText skips a string.
func (c *cursor) skipText() {
	for c.need(1) {
		if i := bytes.IndexByte(c.b, 0); i >= 0 {
			c.b = c.b[i+1:]
			return
		}
		c.b = c.b[len(c.b):]
	}
}
