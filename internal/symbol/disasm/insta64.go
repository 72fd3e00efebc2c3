// SPDX-License-Identifier: Apache-2.0

package disasm

import "encoding/binary"

const linkRegister = 30

// decodeA64 is a [Decoder] for arm64, by "A64 Instruction Set Encoding" of the
// Arm Architecture Reference Manual.
func decodeA64(code []byte, at uint64) Instruction {
	if len(code) < 4 {
		return Instruction{}
	}
	w := binary.LittleEndian.Uint32(code)
	in := Instruction{Size: 4}
	// relative returns the target of a branch by its offset in instructions.
	relative := func(low, bits int) uint64 {
		off := int32(w<<(32-low-bits)) >> (32 - bits) //nolint:gosec // takes the sign along
		return at + uint64(int64(off)*4)              //nolint:gosec // wraps as addresses do
	}
	switch {
	case w>>26 == 0b100101: // bl
		in.Flow, in.Target, in.MovesStack = Call, relative(0, 26), true
	case w&0xfefff800 == 0xd63f0000, w&0xfefff800 == 0xd63f0800: // blr, blraa and the like
		in.Flow, in.MovesStack = CallIndirect, true
	case w&0xfefff800 == 0xd61f0000, w&0xfefff800 == 0xd61f0800: // br, braa and the like
		in.Flow = JumpIndirect
	case w&0xfffffc1f == 0xd65f0000: // ret
		in.returns = true
	case w>>26 == 0b000101: // b
		in.Flow, in.Target = Jump, relative(0, 26)
	case w>>24 == 0x54, w>>25&0x3f == 0x1a: // b.cond, cbz, cbnz
		in.Flow, in.Target = Jump, relative(5, 19)
	case w>>25&0x3f == 0x1b: // tbz, tbnz
		in.Flow, in.Target = Jump, relative(5, 14)
	default:
		in.MovesStack = touchesLink(w)
	}
	return in
}

// touchesLink reports whether an instruction that is no branch stores x30 or writes it. It includes some that only read it.
func touchesLink(w uint32) bool {
	if w&(1<<26) != 0 { // branches, floating point and vectors
		return false
	}
	pair := w&0x3c000000 == 0x28000000 // load or store of two registers
	return w&31 == linkRegister || pair && w>>10&31 == linkRegister
}
