// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"math"
)

// Operations of DWARF expressions, DWARF 5, section 7.7.1.
const (
	opDeref      = 0x06
	opPlusUconst = 0x23
	opLit0       = 0x30
	opBreg0      = 0x70
	opBreg31     = 0x8f
)

// pltExpression is what linkers write for a lazy PLT on x86-64: sp + 8 +
// ((pc & 15) >= N) << 3, where lit N, at pltLiteral, depends on the kind of PLT.
var pltExpression = []byte{
	opBreg0 + 7, 8, opBreg0 + 16, 0, opLit0 + 15, 0x1a /* and */, opLit0 + 11, 0x2a, /* ge */
	opLit0 + 3, 0x24 /* shl */, 0x22 /* plus */}

const pltLiteral = 6

// base is a register and an offset, perhaps dereferenced with something added.
type base struct {
	reg    uint64
	off    int64
	deref  bool
	addend uint64
}

// parseBase decodes the expressions of one register that compilers and authors of assembler code use: breg, breg deref, breg deref
// plus_uconst.
func parseBase(b []byte) (base, bool) {
	c := cursor{b: b}
	op := c.u8()
	if op < opBreg0 || op > opBreg31 {
		return base{}, false
	}
	out := base{reg: uint64(op - opBreg0), off: c.sleb()}
	if len(c.b) > 0 {
		out.deref = c.u8() == opDeref
		if !out.deref {
			return base{}, false
		}
	}
	if len(c.b) > 0 {
		if c.u8() != opPlusUconst {
			return base{}, false
		}
		out.addend = c.uleb()
	}
	return out, !c.bad && len(c.b) == 0 && out.off >= math.MinInt32 && out.off <= math.MaxInt32
}

// setCFAExpression puts the rule for a CFA given by an expression into a state.
func (s *state) setCFAExpression(b []byte, a *arch) {
	s.by, s.expr = byExpr, Rule{}
	if n, ok := pltThreshold(b); ok && a.plt {
		s.expr = Rule{CFA: CFAPLT, CFAOffset: n}
		return
	}
	e, ok := parseBase(b)
	if !ok {
		return
	}
	switch {
	case !e.deref:
		s.by, s.reg, s.off = byRegister, e.reg, e.off
	case e.addend > math.MaxUint8:
	case e.reg == a.fp:
		s.expr = Rule{CFA: CFAFramePointerDeref, CFAOffset: int32(e.off), Addend: uint8(e.addend)}
	case e.reg == a.sp:
		s.expr = Rule{CFA: CFAStackPointerDeref, CFAOffset: int32(e.off), Addend: uint8(e.addend)}
	}
}

// pltThreshold returns N of pltExpression, if that is what b is.
func pltThreshold(b []byte) (int32, bool) {
	if len(b) != len(pltExpression) || b[pltLiteral] < opLit0 || b[pltLiteral] > opLit0+15 {
		return 0, false
	}
	same := bytes.Equal(b[:pltLiteral], pltExpression[:pltLiteral]) && bytes.Equal(b[pltLiteral+1:], pltExpression[pltLiteral+1:])
	return int32(b[pltLiteral] - opLit0), same
}

// savedBy returns the rule of a register whose address an expression computes.
func savedBy(b []byte, a *arch) slot {
	e, ok := parseBase(b)
	if !ok || e.deref || e.reg != a.fp {
		return slot{kind: Undefined, set: true}
	}
	return slot{kind: SavedAtFP, off: e.off, set: true}
}
