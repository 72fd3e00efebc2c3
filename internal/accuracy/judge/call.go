// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"debug/elf"
	"encoding/binary"
)

// longestCall is the length of the longest call instruction of amd64 but for prefixes: call *disp32(base,index).
const longestCall = 7

// returns reports whether an address that was given for a caller, its return address less one, ends a call instruction. known
// is false where the code cannot be read or is of another machine.
func (m *image) returns(address uint64) (follows, known bool) {
	switch m.machine {
	case elf.EM_X86_64:
		if address < longestCall {
			return false, false
		}
		code := m.code(address+1-longestCall, longestCall)
		return amd64Call(code), len(code) == longestCall
	case elf.EM_AARCH64:
		code := m.code(address&^3, 4)
		if len(code) < 4 {
			return false, false
		}
		word := binary.LittleEndian.Uint32(code)
		return word>>26 == 0x25 || word&0xfffffc1f == 0xd63f0000, true // bl, blr
	}
	return false, false
}

// amd64Call reports whether the bytes end with a call: e8 rel32, or ff /2 with any operand.
func amd64Call(code []byte) bool {
	n := len(code)
	if n >= 5 && code[n-5] == 0xe8 {
		return true
	}
	for size := 2; size <= longestCall && size <= n; size++ {
		if code[n-size] == 0xff && indirectCall(code[n-size+1:]) {
			return true
		}
	}
	return false
}

// indirectCall reports whether what follows ff is the operand of a call of exactly this length (Intel SDM, table 2-2).
func indirectCall(operand []byte) bool {
	modrm := operand[0]
	if modrm>>3&7 != 2 {
		return false
	}
	mode, rm := modrm>>6, modrm&7
	size := 1
	if mode != 3 && rm == 4 { // a SIB byte follows
		size++
		if mode == 0 && len(operand) > 1 && operand[1]&7 == 5 {
			size += 4
		}
	}
	switch {
	case mode == 1:
		size++
	case mode == 2, mode == 0 && rm == 5:
		size += 4
	}
	return size == len(operand)
}
