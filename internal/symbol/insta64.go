// SPDX-License-Identifier: Apache-2.0

package symbol

const linkRegister = 30

// decodeA64 is a [decoder] for arm64, by "A64 Instruction Set Encoding" of the
// Arm Architecture Reference Manual.
func decodeA64(code []byte, at uint64) inst {
	if len(code) < 4 {
		return inst{}
	}
	w := le.Uint32(code)
	in := inst{size: 4}
	// relative gives the target of a branch by its offset in instructions.
	relative := func(low, bits int) uint64 {
		off := int32(w<<(32-low-bits)) >> (32 - bits) //nolint:gosec // takes the sign along
		return at + uint64(int64(off)*4)              //nolint:gosec // wraps as addresses do
	}
	switch {
	case w>>26 == 0b100101: // bl
		in.flow, in.target, in.frame = call, relative(0, 26), true
	case w&0xfefff800 == 0xd63f0000, w&0xfefff800 == 0xd63f0800: // blr, blraa and the like
		in.flow, in.frame = callIndirect, true
	case w&0xfefff800 == 0xd61f0000, w&0xfefff800 == 0xd61f0800: // br, braa and the like
		in.flow = jumpIndirect
	case w&0xfffffc1f == 0xd65f0000: // ret
		in.returns = true
	case w>>26 == 0b000101: // b
		in.flow, in.target = jump, relative(0, 26)
	case w>>24 == 0x54, w>>25&0x3f == 0x1a: // b.cond, cbz, cbnz
		in.flow, in.target = jump, relative(5, 19)
	case w>>25&0x3f == 0x1b: // tbz, tbnz
		in.flow, in.target = jump, relative(5, 14)
	default:
		in.frame = touchesLink(w)
	}
	return in
}

// touchesLink tells whether an instruction that is no branch stores x30 or
// writes it. It takes some that only read it for such.
func touchesLink(w uint32) bool {
	if w&(1<<26) != 0 { // branches, floating point and vectors
		return false
	}
	pair := w&0x3c000000 == 0x28000000 // load or store of two registers
	return w&31 == linkRegister || pair && w>>10&31 == linkRegister
}
