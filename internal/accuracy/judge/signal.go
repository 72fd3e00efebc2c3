// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"debug/elf"
)

// signalReturns is the code that a signal handler returns to: it calls rt_sigreturn(2).
var signalReturns = map[elf.Machine][]byte{
	elf.EM_X86_64:  {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, // mov $15,%rax; syscall
	elf.EM_AARCH64: {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4},    // mov x8,#139; svc #0
}

// returnsFromSignal says that the code at an address, or one byte behind it as callers are given, returns from a signal.
func (m *image) returnsFromSignal(address uint64) bool {
	wanted, known := signalReturns[m.machine]
	return known && (bytes.HasPrefix(m.code(address, len(wanted)), wanted) || bytes.HasPrefix(m.code(address+1, len(wanted)), wanted))
}
