// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"debug/elf"
	"errors"
	"fmt"
)

const (
	// checkInstructions bounds the check of the stack with which functions of Go begin, growInstructions the code that grows it, which saves
	// the arguments.
	checkInstructions = 12
	growInstructions  = 64
)

// BehindStackCheck returns the offset in a function's code of the instruction behind the check of the stack with which most functions of Go
// begin; 0 if there is none. If the stack is too small, or the scheduler preempts, the check jumps to code that ends with a jump to the
// function's first instruction, which then runs again in the same call. The code behind the check runs once in each call, with the arguments
// in their registers or on the stack as passed. The error reports an unsupported machine.
func BehindStackCheck(machine elf.Machine, code []byte) (uint64, error) {
	decode := DecoderFor(machine)
	if decode == nil {
		return 0, fmt.Errorf("decoding code for %s: %w", machine, errors.ErrUnsupported)
	}
	behind := uint64(0)
	for off, i := uint64(0), 0; i < checkInstructions && off < uint64(len(code)); i++ {
		in := decode(code[off:], off)
		off += uint64(in.Size)
		switch {
		case in.Size == 0, in.returns, in.Flow != Onward && in.Flow != Jump:
			return behind, nil
		case in.Flow == Jump && growsStack(decode, code, in.Target): // a large frame has two
			behind = off
		}
	}
	return behind, nil
}

// growsStack reports whether the code from an offset on calls a function and jumps back to the first instruction.
func growsStack(decode Decoder, code []byte, off uint64) bool {
	called := false
	for i := 0; i < growInstructions && off < uint64(len(code)); i++ {
		in := decode(code[off:], off)
		switch {
		case in.Flow == Jump:
			return called && in.Target == 0
		case in.Size == 0, in.returns, in.Flow == JumpIndirect:
			return false
		}
		called = called || in.Flow == Call
		off += uint64(in.Size)
	}
	return false
}
