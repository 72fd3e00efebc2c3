// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"debug/elf"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReturns(t *testing.T) {
	for name, c := range map[string]struct {
		machine elf.Machine
		code    []byte
		want    []uint64
	}{
		"x86": {elf.EM_X86_64, []byte{
			0x55,                            // push %rbp
			0x48, 0xc7, 0xc0, 0xc3, 0, 0, 0, // mov $0xc3, %rax: no return
			0xc3,       // ret
			0xc2, 8, 0, // ret $8
			0xf3, 0xc3, // rep ret
			0x90,
		}, []uint64{8, 9, 12}},
		"arm64": {elf.EM_AARCH64, []byte{
			0x1f, 0x20, 0x03, 0xd5, // nop
			0xc0, 0x03, 0x5f, 0xd6, // ret
			0x00, 0x01, 0x5f, 0xd6, // ret x8
			0x00, 0x01, 0x1f, 0xd6, // br x8
		}, []uint64{4, 8}},
		"empty": {elf.EM_X86_64, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Returns(c.machine, c.code)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := Returns(elf.EM_X86_64, []byte{0x90, 0x06})
	require.ErrorIs(t, err, errNoInstruction)
	_, err = Returns(elf.EM_RISCV, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
