// SPDX-License-Identifier: Apache-2.0

package symbol

import "debug/elf"

// flow is how an instruction goes on, as far as it matters here.
type flow uint8

const (
	onward       flow = iota // with the next one; also returns, which end nothing here
	call                     // calls inst.target
	callIndirect             // calls what a register or memory says
	jump                     // may jump to inst.target
	jumpIndirect
)

// inst is what is told of one instruction.
type inst struct {
	size   int // bytes; 0 when it could not be decoded
	flow   flow
	target uint64 // of call and jump
	// frame is set when the return address is not, from here on, where it was at
	// the function's start: at the top of the stack, in the link register of arm64.
	frame bool
	// returns is set where the function returns.
	returns bool
}

// decoder decodes the instruction at the start of code, which is at address at.
type decoder func(code []byte, at uint64) inst

// maxInst is the longest instruction, in bytes, of the architectures known here.
const maxInst = 15

// decoderFor gives the decoder of a machine, nil when there is none.
func decoderFor(m elf.Machine) decoder {
	switch m {
	case elf.EM_X86_64:
		return decodeX86
	case elf.EM_AARCH64:
		return decodeA64
	}
	return nil
}
