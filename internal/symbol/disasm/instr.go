// SPDX-License-Identifier: Apache-2.0

// Package disasm decodes machine code of x86-64 and arm64 as far as symbols and probes need it: where instructions end, calls, jumps and
// returns, and what moves the return address. It reads bytes alone and imports no other package of the module.
package disasm

import "debug/elf"

// Flow is how execution continues after an instruction, as far as it matters here.
type Flow uint8

const (
	Onward       Flow = iota // with the next one; also returns, which end nothing here
	Call                     // calls Instruction.Target
	CallIndirect             // calls a target in a register or memory
	Jump                     // may jump to Instruction.Target
	JumpIndirect
)

// Instruction is what is decoded of one instruction.
type Instruction struct {
	Size   int // bytes; 0 when it could not be decoded
	Flow   Flow
	Target uint64 // of call and jump
	// MovesStack: from here on the return address is not where it was at the function's start, at the top of the stack or in the link register of
	// arm64.
	MovesStack bool
	// returns is set where the function returns.
	returns bool
}

// Decoder decodes the instruction at the start of code, which is at address at.
type Decoder func(code []byte, at uint64) Instruction

// MaxInstruction is the longest instruction, in bytes, of the supported architectures.
const MaxInstruction = 15

// DecoderFor returns the Decoder of a machine, nil when there is none.
func DecoderFor(m elf.Machine) Decoder {
	switch m {
	case elf.EM_X86_64:
		return decodeX86
	case elf.EM_AARCH64:
		return decodeA64
	}
	return nil
}
