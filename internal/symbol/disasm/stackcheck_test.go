// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBehindStackCheck checks that the check is skipped in each form that Go's compiler gives it, which depends on the frame's size, and that
// nothing else is taken for one.
func TestBehindStackCheck(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine elf.Machine
		code    string
		want    uint64
	}{
		{"small frame", elf.EM_X86_64, // cmp 16(%r14),%rsp; jbe; push %rbp; pop; ret; mov %rax,8(%rsp); call; mov 8(%rsp),%rax; jmp
			"49 3b 66 10 76 03 55 5d c3 48 89 44 24 08 e8 00 10 00 00 48 8b 44 24 08 eb e6", 6},
		{"frame", elf.EM_X86_64, // lea -72(%rsp),%r12; cmp 16(%r14),%r12; jbe (long); push; pop; ret; call; jmp (long)
			"4c 8d 64 24 b8 4d 3b 66 10 0f 86 03 00 00 00 55 5d c3 e8 00 10 00 00 e9 e4 ff ff ff", 15},
		{"large frame", elf.EM_X86_64, // mov %rsp,%r12; sub $65536,%r12; jb; cmp 16(%r14),%r12; jbe; push; pop; ret; call; jmp
			"49 89 e4 49 81 ec 00 00 01 00 72 09 4d 3b 66 10 76 03 55 5d c3 e8 00 10 00 00 eb e4", 18},
		{"small frame of arm64", elf.EM_AARCH64, // ldr x16,[x28,#16]; cmp sp,x16; b.ls; str x30,[sp,#-16]!; ret; mov x3,x30; bl; b
			"90 0b 40 f9 ff 63 30 eb 69 00 00 54 fe 0f 1f f8 c0 03 5f d6 e3 03 1e aa 00 04 00 94 f9 ff ff 17", 12},
		{"frame of arm64", elf.EM_AARCH64, // ldr x16,[x28,#16]; sub x17,sp,#64; cmp x17,x16; b.ls; str x30; ret; mov x3,x30; bl; b
			"90 0b 40 f9 f1 03 01 d1 3f 02 10 eb 69 00 00 54 fe 0f 1f f8 c0 03 5f d6 e3 03 1e aa 00 04 00 94 f8 ff ff 17", 16},
		{"none", elf.EM_X86_64, "55 48 89 e5 5d c3", 0},
		{"a branch", elf.EM_X86_64, "48 85 c0 74 03 55 5d c3 31 c0 c3", 0},                 // if x == 0 { return 0 }
		{"a loop", elf.EM_X86_64, "48 ff c8 74 02 eb f9 c3", 0},                            // which calls nothing
		{"elsewhere", elf.EM_X86_64, "49 3b 66 10 76 03 55 5d c3 e8 00 10 00 00 eb 00", 0}, // the jump does not lead back
		{"cut", elf.EM_X86_64, "49 3b 66 10 76 03 55 5d c3 e8", 0},
		{"empty", elf.EM_X86_64, "", 0},
	} {
		got, err := BehindStackCheck(c.machine, bytesOf(t, c.code))
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.name)
	}
	_, err := BehindStackCheck(elf.EM_386, nil)
	require.Error(t, err)
}

func FuzzBehindStackCheck(f *testing.F) {
	f.Add([]byte("\x49\x3b\x66\x10\x76\x03\x55\x5d\xc3\xe8\x00\x10\x00\x00\xeb\xf0"))
	f.Add([]byte("\x90\x0b\x40\xf9\xff\x63\x30\xeb\x69\x00\x00\x54"))
	f.Fuzz(func(t *testing.T, code []byte) {
		for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
			at, err := BehindStackCheck(machine, code)
			require.NoError(t, err)
			require.LessOrEqual(t, at, uint64(len(code)))
		}
	})
}
