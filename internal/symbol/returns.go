// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
)

var errNoInstruction = errors.New("bytes that are no instruction")

// Returns gives the offsets of the instructions of a function's code that return from it.
// The error tells that the code has bytes that cannot be decoded, or is for a machine that is not known here.
func Returns(machine elf.Machine, code []byte) ([]uint64, error) {
	decode := decoderFor(machine)
	if decode == nil {
		return nil, fmt.Errorf("decoding code for %s: %w", machine, errors.ErrUnsupported)
	}
	var at []uint64
	for off := uint64(0); off < uint64(len(code)); {
		in := decode(code[off:], off)
		if in.size == 0 {
			return nil, fmt.Errorf("decoding at %#x: % x: %w", off, code[off:min(off+maxInst, uint64(len(code)))], errNoInstruction)
		}
		if in.returns {
			at = append(at, off)
		}
		off += uint64(in.size)
	}
	return at, nil
}

// Instructions gives each instruction of code, which is at an address, with the address that it leads to as a call or a jump, 0 where it is
// none or leads to where only a run tells.
func Instructions(machine elf.Machine, code []byte, address uint64, visit func(at uint64, raw []byte, target uint64)) error {
	decode := decoderFor(machine)
	if decode == nil {
		return fmt.Errorf("decoding code for %s: %w", machine, errors.ErrUnsupported)
	}
	for off := 0; off < len(code); {
		at := address + uint64(off)
		in := decode(code[off:], at)
		if in.size == 0 {
			return fmt.Errorf("decoding at %#x: % x: %w", at, code[off:min(off+maxInst, len(code))], errNoInstruction)
		}
		visit(at, code[off:off+in.size], in.target)
		off += in.size
	}
	return nil
}
