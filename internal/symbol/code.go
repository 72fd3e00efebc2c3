// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"
)

// errNoCode is the cause when an address is in no executable segment.
var errNoCode = errors.New("no code there")

const (
	maxWalk    = 16 << 10 // bytes of one function's code that are decoded
	walkWindow = 512
)

// covers reports whether addr is in an executable segment.
func (b *binary) covers(addr uint64) bool { return b.segmentAt(addr) != nil }

func (b *binary) segmentAt(addr uint64) *segment {
	for i := range b.segments {
		if p := &b.segments[i]; addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}

// code reads the code of a binary, which must be open, from addr on: as much
// as fits buf and the segment has.
func (s *Symbolizer) code(b *binary, addr uint64, buf []byte) ([]byte, error) {
	p := b.segmentAt(addr)
	if p == nil {
		return nil, fmt.Errorf("reading code at %#x: %w", addr, errNoCode)
	}
	buf = buf[:min(uint64(len(buf)), p.Filesz-(addr-p.Vaddr))]
	if err := elfimage.ReadFull(s.reader(b), buf, addr-p.Vaddr+p.Off); err != nil {
		return nil, fmt.Errorf("reading code at %#x: %w", addr, err)
	}
	return buf, nil
}

// codeBefore reads the bytes that end before addr, up to the size of buf.
func (s *Symbolizer) codeBefore(b *binary, addr uint64, buf []byte) ([]byte, error) {
	p := b.segmentAt(addr - 1)
	if p == nil {
		return nil, fmt.Errorf("reading code before %#x: %w", addr, errNoCode)
	}
	n := min(uint64(len(buf)), addr-p.Vaddr)
	return s.code(b, addr-n, buf[:n])
}

// walk decodes the instructions from one address on until the next would be at to or beyond, or visit returns false. It returns where it
// stopped, which is before to if code cannot be decoded.
func (s *Symbolizer) walk(b *binary, from, to uint64, visit func(at uint64, in disasm.Instruction) bool) (uint64, error) {
	decode := disasm.DecoderFor(b.arch)
	var window [walkWindow]byte
	for at := from; at < to; {
		code, err := s.code(b, at, window[:])
		if err != nil {
			return at, err
		}
		more := len(code) == len(window)
		for at < to && (!more || len(code) >= disasm.MaxInstruction) {
			in := decode(code, at)
			if in.Size == 0 || !visit(at, in) {
				return at, nil
			}
			code, at = code[in.Size:], at+uint64(in.Size) //nolint:gosec // at most maxInst
		}
		from = at
	}
	return from, nil
}
