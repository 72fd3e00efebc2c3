// SPDX-License-Identifier: Apache-2.0

package unwind

import "math"

// state is a row of the table that call frame instructions describe, without
// the registers that unwinding does not need.
type state struct {
	expr Rule   // CFA, CFAOffset and Addend when byExpr
	reg  uint64 // else the CFA is reg + off
	off  int64
	by   cfaBy
	fp   slot
	ra   slot
	bx   slot
}

type cfaBy uint8

const (
	byNothing cfaBy = iota
	byRegister
	byExpr
)

// slot is the rule of one register.
type slot struct {
	off  int64
	kind SaveKind
	set  bool // by an instruction
}

// rule packs the state; registers that do not fit are unknown.
func (s *state) rule(a *arch, signal bool) Rule {
	if signal {
		return Rule{CFA: CFASignal}
	}
	if s.ra.set && s.ra.kind == Undefined {
		return Rule{CFA: CFAEnd}
	}
	r, ok := s.cfa(a)
	if !ok || a.plt && !s.ra.set || s.ra.kind == Undefined || s.ra.kind == SavedAtFP {
		return Rule{}
	}
	if a.plt && s.ra.kind == Same {
		return Rule{}
	}
	if s.ra.off != int64(int16(s.ra.off)) {
		return Rule{}
	}
	r.RA, r.RAOffset = s.ra.kind, int16(s.ra.off)
	r.FP, r.FPOffset = s.fp.kind, int16(s.fp.off)
	if s.fp.off != int64(r.FPOffset) {
		r.FP, r.FPOffset = Undefined, 0
	}
	r.BX, r.BXOffset = s.bx.kind, int16(s.bx.off)
	if s.bx.off != int64(r.BXOffset) || r.BX == SavedAtFP {
		r.BX, r.BXOffset = Undefined, 0
	}
	return r
}

func (s *state) cfa(a *arch) (Rule, bool) {
	switch {
	case s.by == byExpr:
		return s.expr, s.expr.CFA != CFANone
	case s.by != byRegister || s.off < math.MinInt32 || s.off > math.MaxInt32:
		return Rule{}, false
	case s.reg == a.sp:
		return Rule{CFA: CFAStackPointer, CFAOffset: int32(s.off)}, true
	case s.reg == a.fp:
		return Rule{CFA: CFAFramePointer, CFAOffset: int32(s.off)}, true
	case s.reg > maxRegister:
		return Rule{}, false
	}
	return Rule{CFA: CFARegister + CFAKind(s.reg), CFAOffset: int32(s.off)}, true
}
