// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"debug/elf"
	"errors"
	"fmt"
)

var errNoInstruction = errors.New("bytes that are no instruction")

// Returns returns the offsets of the instructions of a function's code that return from it. The error reports bytes that cannot be decoded,
// or code for an unsupported machine.
func Returns(machine elf.Machine, code []byte) ([]uint64, error) {
	decode := DecoderFor(machine)
	if decode == nil {
		return nil, fmt.Errorf("decoding code for %s: %w", machine, errors.ErrUnsupported)
	}
	var at []uint64
	for off := uint64(0); off < uint64(len(code)); {
		in := decode(code[off:], off)
		if in.Size == 0 {
			return nil, fmt.Errorf("decoding at %#x: % x: %w", off, code[off:min(off+MaxInstruction, uint64(len(code)))], errNoInstruction)
		}
		if in.returns {
			at = append(at, off)
		}
		off += uint64(in.Size)
	}
	return at, nil
}

// Instructions calls visit with each instruction of code, which is at an address, and the target of a call or a jump, 0 if it is neither or
// if the target is only known at run time.
func Instructions(machine elf.Machine, code []byte, address uint64, visit func(at uint64, raw []byte, target uint64)) error {
	decode := DecoderFor(machine)
	if decode == nil {
		return fmt.Errorf("decoding code for %s: %w", machine, errors.ErrUnsupported)
	}
	for off := 0; off < len(code); {
		at := address + uint64(off)
		in := decode(code[off:], at)
		if in.Size == 0 {
			return fmt.Errorf("decoding at %#x: % x: %w", at, code[off:min(off+MaxInstruction, len(code))], errNoInstruction)
		}
		visit(at, code[off:off+in.Size], in.Target)
		off += in.Size
	}
	return nil
}
