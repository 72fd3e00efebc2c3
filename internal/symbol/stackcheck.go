// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
)

const (
	// checkInstructions bounds the check of the stack with which functions of Go begin, growInstructions what has it grow: the arguments
	// are kept meanwhile.
	checkInstructions = 12
	growInstructions  = 64
)

// BehindStackCheck gives the offset in a function's code of the instruction behind the check of the stack with which most functions of Go
// begin; 0 where there is none. Where the stack is too small, or the scheduler wants its CPU back, the check leads to what ends with a jump
// to the function's first instruction, which is then run again in the same call. What is behind the check is run once in each, with the
// arguments where they were. The error tells that the code is for a machine that is not known here.
func BehindStackCheck(machine elf.Machine, code []byte) (uint64, error) {
	decode := decoderFor(machine)
	if decode == nil {
		return 0, fmt.Errorf("decoding code for %s: %w", machine, errors.ErrUnsupported)
	}
	behind := uint64(0)
	for off, i := uint64(0), 0; i < checkInstructions && off < uint64(len(code)); i++ {
		in := decode(code[off:], off)
		off += uint64(in.size)
		switch {
		case in.size == 0, in.returns, in.flow != onward && in.flow != jump:
			return behind, nil
		case in.flow == jump && growsStack(decode, code, in.target): // of a large frame there are two
			behind = off
		}
	}
	return behind, nil
}

// growsStack tells whether the code from an offset on calls something and goes back to the first instruction.
func growsStack(decode decoder, code []byte, off uint64) bool {
	called := false
	for i := 0; i < growInstructions && off < uint64(len(code)); i++ {
		in := decode(code[off:], off)
		switch {
		case in.flow == jump:
			return called && in.target == 0
		case in.size == 0, in.returns, in.flow == jumpIndirect:
			return false
		}
		called = called || in.flow == call
		off += uint64(in.size)
	}
	return false
}
