// SPDX-License-Identifier: Apache-2.0

package judge

import "debug/elf"

// signalReturns is the code that a signal handler returns to: it calls rt_sigreturn(2).
var signalReturns = map[elf.Machine][]byte{
	elf.EM_X86_64:  {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, // mov $15,%rax; syscall
	elf.EM_AARCH64: {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4},    // mov x8,#139; svc #0
}

// returnsFromSignal reports whether an address is within the code that returns from a signal: one byte before it, as callers are given, up
// to its end, where a task is that runs the system call.
func (m *image) returnsFromSignal(address uint64) bool {
	wanted, known := signalReturns[m.machine]
	if !known || address < uint64(len(wanted)) {
		return false
	}
	return m.has(address-uint64(len(wanted)), 2*len(wanted)+1, wanted)
}
