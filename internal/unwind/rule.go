// SPDX-License-Identifier: Apache-2.0

package unwind

import "fmt"

// Rule describes how to get from a frame to its caller. It has 16 bytes without padding, the layout of struct unwind_rule in
// bpf/include/unwind.h, in native byte order. In the zero Rule nothing is known.
//
// CFA, the canonical frame address, is the stack pointer of the caller right
// after the call returned. sp, fp and ra are the registers of DWARF: rsp, rbp
// and the return address on x86-64; sp, x29 and x30 on arm64. bx is rbx, in which
// code that aligns its stack keeps the CFA; arm64 has nothing like it.
type Rule struct {
	CFAOffset int32 // bytes, see the kinds
	FPOffset  int16 // bytes; where the caller's fp is saved, see SaveKind
	RAOffset  int16 // bytes; where the return address is saved
	CFA       CFAKind
	FP        SaveKind
	RA        SaveKind
	Addend    uint8 // bytes added to what a Deref kind read; else 0
	BXOffset  int16 // bytes; where the caller's bx is saved, from the CFA
	BX        SaveKind
	_         uint8
}

// CFAKind is what the CFA is computed from.
type CFAKind uint8

// Kinds of CFA.
const (
	// CFANone: no rule is known.
	CFANone CFAKind = 0
	// CFAStackPointer: sp + CFAOffset.
	CFAStackPointer CFAKind = 1
	// CFAFramePointer: fp + CFAOffset.
	CFAFramePointer CFAKind = 2
	// CFAFramePointerDeref: the word at fp + CFAOffset, plus Addend: functions
	// that realign their stack.
	CFAFramePointerDeref CFAKind = 3
	// CFAPLT: sp + 8, and 8 more where pc & 15 >= CFAOffset: entries of a lazy
	// PLT on x86-64.
	CFAPLT CFAKind = 4
	// CFASignal: the frame is a signal trampoline; the registers of what was
	// interrupted are in the ucontext at sp.
	CFASignal CFAKind = 5
	// CFAEnd: the frame is the outermost.
	CFAEnd CFAKind = 6
	// CFARegister + n, to CFARegister + 31: DWARF register n + CFAOffset, for
	// registers but sp and fp. Only the innermost frame's are known, those that
	// functions need not keep in its caller, and bx.
	CFARegister CFAKind = 7
	// CFAStackPointerDeref: the word at sp + CFAOffset, plus Addend: assembler
	// code that saved the stack pointer before it aligned it.
	CFAStackPointerDeref CFAKind = 64
	// CFAGoGrows: the frame is Go's morestack, which has changed stacks: the goroutine's g, m.curg at CFAOffset, has the former stack
	// pointer. On x86-64 alone.
	CFAGoGrows CFAKind = 65
)

// maxRegister is the highest DWARF register that CFARegister can name.
const maxRegister = 31

// SaveKind is where the caller's value of a register is.
type SaveKind uint8

// Kinds of saved registers.
const (
	// Same: the register still has it. The return address is so on arm64 alone,
	// in the link register.
	Same SaveKind = 0
	// Saved: in memory at CFA + offset.
	Saved SaveKind = 1
	// Undefined: it is lost, or saved in a way that a Rule cannot express.
	Undefined SaveKind = 2
	// SavedAtFP: in memory at fp + offset.
	SavedAtFP SaveKind = 3
)

// String formats a rule in the notation of readelf, for tests and logs.
func (r Rule) String() string {
	return r.cfa() + " fp=" + saving(r.FP, r.FPOffset) + " ra=" + saving(r.RA, r.RAOffset) + " bx=" + saving(r.BX, r.BXOffset)
}

func (r Rule) cfa() string {
	switch {
	case r.CFA == CFANone:
		return "none"
	case r.CFA == CFAStackPointer:
		return fmt.Sprintf("sp%+d", r.CFAOffset)
	case r.CFA == CFAFramePointer:
		return fmt.Sprintf("fp%+d", r.CFAOffset)
	case r.CFA == CFAFramePointerDeref:
		return fmt.Sprintf("*(fp%+d)+%d", r.CFAOffset, r.Addend)
	case r.CFA == CFAStackPointerDeref:
		return fmt.Sprintf("*(sp%+d)+%d", r.CFAOffset, r.Addend)
	case r.CFA == CFAPLT:
		return fmt.Sprintf("plt%d", r.CFAOffset)
	case r.CFA == CFASignal:
		return "signal"
	case r.CFA == CFAEnd:
		return "end"
	case r.CFA == CFAGoGrows:
		return fmt.Sprintf("grows%+d", r.CFAOffset)
	case r.CFA <= CFARegister+maxRegister:
		return fmt.Sprintf("r%d%+d", r.CFA-CFARegister, r.CFAOffset)
	}
	return fmt.Sprintf("kind %d", r.CFA)
}

func saving(kind SaveKind, off int16) string {
	switch kind {
	case Same:
		return "s"
	case Saved:
		return fmt.Sprintf("c%+d", off)
	case SavedAtFP:
		return fmt.Sprintf("*(fp%+d)", off)
	}
	return "u"
}
