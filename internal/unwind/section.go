// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"fmt"
	"math"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	maxCIEs     = 1 << 17 // one for each compiled file in .debug_frame
	maxFuncs    = 1 << 21 // entries of functions in all sources
	workPerByte = 16      // bytes of instructions that are run for each of a section
)

var (
	errTooMany = errors.New("exceeds the bound")
	errWork    = errors.New("entries share more instructions than they should")
)

// section is call frame information: .eh_frame or .debug_frame.
type section struct {
	name string
	*windows
	off, size uint64 // in the file
	addr      uint64 // virtual address
	data      uint64 // what data-relative pointers count from, or 0
	eh        bool
	openEnd   bool // a terminator ends it, not its size
	arch      *arch
	cies      map[uint64]*cie // by offset; nil for a bad one
	work      uint64          // bytes of instructions run
	machine   machine
}

// entry is a CIE or FDE.
type entry struct {
	off    uint64 // from the section's begin
	next   uint64 // offset of the following entry
	id     uint64
	idAt   uint64 // offset of the id
	bodyAt uint64 // offset of what follows the id
	isCIE  bool
}

// header reads the head of the entry at off; ok is false for a terminator.
func (s *section) header(off uint64) (e entry, ok bool, err error) {
	b, err := s.bytes(s.off+off, min(20, s.size-off))
	if err != nil {
		return e, false, err
	}
	c := cursor{b: b}
	length, width, idWidth := uint64(c.u32()), uint64(4), uint64(4)
	if length == math.MaxUint32 { // the 64-bit format
		length, width = c.u64(), 12
		if !s.eh {
			idWidth = 8
		}
	}
	e = entry{off: off, next: off + width, idAt: off + width}
	if length == 0 && !c.bad {
		return e, false, nil
	}
	if idWidth == 8 {
		e.id = c.u64()
		e.isCIE = e.id == math.MaxUint64
	} else {
		e.id = uint64(c.u32())
		e.isCIE = e.id == 0 && s.eh || e.id == math.MaxUint32 && !s.eh
	}
	if c.bad || length < idWidth || length > s.size-e.next {
		return e, false, fmt.Errorf("entry of %d bytes: %w", length, errShort)
	}
	e.next += length
	e.bodyAt = e.idAt + idWidth
	return e, true, nil
}

func (s *section) body(e entry) ([]byte, error) { return s.bytes(s.off+e.bodyAt, e.next-e.bodyAt) }

// cieOf returns the CIE that an FDE points to.
func (s *section) cieOf(fde entry) (*cie, error) {
	off := fde.id
	if s.eh {
		off = fde.idAt - fde.id
	}
	if known, ok := s.cies[off]; ok {
		if known == nil {
			return nil, fmt.Errorf("at %#x: %w", off, errNotCIE)
		}
		return known, nil
	}
	if len(s.cies) == maxCIEs {
		return nil, fmt.Errorf("%d common information entries: %w", maxCIEs, errTooMany)
	}
	if !s.memory.hold(cieMemory) {
		return nil, s.memory.err
	}
	parsed, err := s.readCIE(off)
	s.cies[off] = parsed
	if err != nil {
		return nil, fmt.Errorf("common information entry at %#x: %w", off, err)
	}
	return parsed, nil
}

func (s *section) readCIE(off uint64) (*cie, error) {
	if off >= s.size {
		return nil, errNotCIE
	}
	e, ok, err := s.header(off)
	if err != nil {
		return nil, err
	}
	if !ok || !e.isCIE {
		return nil, errNotCIE
	}
	body, err := s.body(e)
	if err != nil {
		return nil, err
	}
	if err := s.charge(body); err != nil {
		return nil, err
	}
	return s.parseCIE(body, s.addr+e.bodyAt)
}

// charge bounds the work: entries may overlap.
func (s *section) charge(body []byte) error {
	s.work += uint64(len(body))
	if s.work > workPerByte*s.size {
		return errWork
	}
	return nil
}

// fde is the entry of a function.
type fde struct {
	cie          *cie
	start, end   uint64
	instructions []byte
}

func (s *section) parseFDE(e entry) (fde, error) {
	var out fde
	var err error
	if out.cie, err = s.cieOf(e); err != nil {
		return out, err
	}
	b, err := s.body(e)
	if err != nil {
		return out, err
	}
	if err := s.charge(b); err != nil {
		return out, err
	}
	c := cursor{b: b}
	c.take(out.cie.segmentLen)
	at := func() uint64 { return s.addr + e.next - uint64(len(c.b)) }
	if out.start, err = c.pointer(out.cie.encoding, at(), s.data); err != nil {
		return out, err
	}
	length, err := c.value(out.cie.encoding & peFormat)
	if err != nil {
		return out, err
	}
	if out.cie.augmented {
		c.take(c.uleb())
	}
	out.end, out.instructions = out.start+length, c.b
	if out.cie.signal {
		out.end++ // its last instruction is the system call, which the thread has just passed
	}
	if c.bad || out.end < out.start {
		return out, errShort
	}
	return out, nil
}

// scan finds the functions of the section.
func (s *section) scan(b *builder, from source) {
	for off := uint64(0); off < s.size; {
		e, ok, err := s.header(off)
		if err != nil {
			b.skip(fmt.Errorf("%s at %#x: %w", s.name, off, err))
			return // where the next one begins is not known
		}
		off = e.next
		if !ok && s.openEnd {
			return
		}
		if !ok || e.isCIE {
			continue // linkers leave terminators between entries
		}
		f, err := s.parseFDE(e)
		if err != nil {
			b.skip(fmt.Errorf("%s at %#x: %w", s.name, e.off, err))
			if errors.Is(err, errWork) || errors.Is(err, elfimage.ErrTruncated) || s.memory.refused() != nil {
				return
			}
			continue
		}
		if e.off <= math.MaxUint32 {
			b.add(f.start, f.end, uint32(e.off), from)
		}
	}
}

// emit runs the instructions of the function whose entry is at off.
func (s *section) emit(off uint32, p *packer) error {
	e, _, err := s.header(uint64(off))
	if err != nil {
		return err
	}
	f, err := s.parseFDE(e)
	if err != nil {
		return fmt.Errorf("%s at %#x: %w", s.name, off, err)
	}
	if !f.cie.usable {
		return nil // the return address is not in the expected register
	}
	m := &s.machine
	m.arch, m.cie, m.state, m.initial = s.arch, f.cie, f.cie.initial, f.cie.initial
	m.loc, m.end, m.out = f.start, f.end, p
	m.codeEnd, m.data = s.addr+e.next, s.data
	if err := m.run(f.instructions); err != nil {
		return fmt.Errorf("%s at %#x, code at %#x: %w", s.name, off, m.loc, err)
	}
	m.goTo(max(m.loc, f.end))
	return nil
}
