// SPDX-License-Identifier: Apache-2.0

package symbol

import "github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"

// siteBefore decodes the call that ends before an address of an open binary. A call through a stub, such as one of the procedure linkage
// table, counts as an indirect one.
func (s *Symbolizer) siteBefore(b *binary, addr uint64) (disasm.CallSite, error) {
	var buf [8]byte
	if !b.covers(addr - 1) {
		return disasm.CallSite{}, nil
	}
	code, err := s.codeBefore(b, addr, buf[:])
	if err != nil {
		return disasm.CallSite{}, err
	}
	c := disasm.CallBefore(disasm.DecoderFor(b.arch), code, addr, b.covers)
	if c.Flow != disasm.Call {
		return c, nil
	}
	stub, err := s.isStub(b, c.Target)
	if stub {
		c.Flow = disasm.CallIndirect
	}
	return c, err
}

// maxStub is how many instructions a stub may have up to its jump.
const maxStub = 5

// isStub reports whether the code at an address of an open binary begins with
// an indirect jump, as that of a procedure linkage table does.
func (s *Symbolizer) isStub(b *binary, addr uint64) (bool, error) {
	stub, left := false, maxStub
	_, err := s.walk(b, addr, addr+maxStub*disasm.MaxInstruction, func(_ uint64, in disasm.Instruction) bool {
		stub = in.Flow == disasm.JumpIndirect
		left--
		return in.Flow == disasm.Onward && !in.MovesStack && left > 0
	})
	return stub, err
}

// maxJumps is how many jumps out of a function are examined.
const maxJumps = 32

// jumpsTo reports whether the function that begins at from may continue in another: it jumps to the address to, or indirectly, or to a stub.
func (s *Symbolizer) jumpsTo(b *binary, from, to uint64) (bool, error) {
	fn, ok, err := s.functionAt(b, from)
	if !ok || err != nil || fn.Start != from {
		return false, err
	}
	found, left := false, maxJumps
	var errStub error
	_, err = s.walk(b, fn.Start, min(fn.End, fn.Start+maxWalk), func(_ uint64, in disasm.Instruction) bool {
		switch {
		case in.Flow == disasm.JumpIndirect, in.Flow == disasm.Jump && in.Target == to:
			found = true
		case in.Flow == disasm.Jump && !fn.Contains(in.Target) && b.covers(in.Target):
			left--
			found, errStub = s.isStub(b, in.Target)
		}
		return !found && errStub == nil && left > 0
	})
	if err == nil {
		err = errStub
	}
	return found, err
}
