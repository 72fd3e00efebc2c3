// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"errors"
	"fmt"
)

// ErrUnsupported is the cause when a binary is for an unsupported machine.
var ErrUnsupported = errors.New("machine not supported")

// arch has the DWARF numbers of the registers of a machine.
type arch struct {
	fp, sp, ra uint64
	bx         uint64 // noRegister if there is none
	plt        bool   // has PLT entries with an expression, and a return address that the call pushed
}

const noRegister = ^uint64(0)

var (
	x86   = arch{fp: 6, sp: 7, ra: 16, bx: 3, plt: true} // System V ABI, AMD64 supplement, figure 3.36
	arm64 = arch{fp: 29, sp: 31, ra: 30, bx: noRegister} // DWARF for the Arm 64-bit Architecture, 4.1
)

func archOf(machine elf.Machine, is64 bool) (*arch, error) {
	switch {
	case machine == elf.EM_X86_64 && is64:
		return &x86, nil
	case machine == elf.EM_AARCH64 && is64:
		return &arm64, nil
	}
	return nil, fmt.Errorf("%v, 64 bits: %t: %w", machine, is64, ErrUnsupported)
}
