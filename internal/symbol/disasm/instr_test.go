// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return b
}

func TestDecodeX86(t *testing.T) {
	for text, want := range map[string]Instruction{
		"f3 0f 1e fa":                   {Size: 4},                                                // endbr64
		"55":                            {Size: 1, MovesStack: true},                              // push %rbp
		"40 55":                         {Size: 2, MovesStack: true},                              // the same, longer
		"41 57":                         {Size: 2, MovesStack: true},                              // push %r15
		"5d":                            {Size: 1, MovesStack: true},                              // pop %rbp
		"48 83 ec 18":                   {Size: 4, MovesStack: true},                              // sub $24,%rsp
		"48 81 ec 00 02 00 00":          {Size: 7, MovesStack: true},                              // sub $512,%rsp
		"48 83 fc 18":                   {Size: 4},                                                // cmp $24,%rsp
		"48 8d 64 24 f0":                {Size: 5, MovesStack: true},                              // lea -16(%rsp),%rsp
		"48 8d 44 24 f0":                {Size: 5},                                                // lea -16(%rsp),%rax
		"48 89 5c 24 f8":                {Size: 5},                                                // mov %rbx,-8(%rsp)
		"49 83 ec 18":                   {Size: 4},                                                // sub $24,%r12
		"4c 8b 20":                      {Size: 3},                                                // mov (%rax),%r12
		"48 8b 20":                      {Size: 3, MovesStack: true},                              // mov (%rax),%rsp
		"48 94":                         {Size: 2, MovesStack: true},                              // xchg %rax,%rsp
		"49 94":                         {Size: 2},                                                // xchg %rax,%r12
		"48 b8 01 02 03 04 05 06 07 08": {Size: 10},                                               // movabs
		"66 b8 01 02":                   {Size: 4},                                                // mov $0x201,%ax
		"f7 c0 01 00 00 00":             {Size: 6},                                                // test $1,%eax
		"f7 d8":                         {Size: 2},                                                // neg %eax
		"c5 fd 6f 04 25 00 10 00 00":    {Size: 9},                                                // vmovdqa 0x1000,%ymm0
		"62 f1 fe 48 6f 04 24":          {Size: 7},                                                // vmovdqu64 (%rsp),%zmm0
		"c8 10 00 00":                   {Size: 4, MovesStack: true},                              // enter
		"e8 0b 00 00 00":                {Size: 5, Flow: Call, Target: 0x1010},                    // call
		"e9 fb ff ff ff":                {Size: 5, Flow: Jump, Target: 0x1000},                    // jmp
		"eb fe":                         {Size: 2, Flow: Jump, Target: 0x1000},                    // jmp
		"0f 84 fa ff ff ff":             {Size: 6, Flow: Jump, Target: 0x1000},                    // je
		"ff d0":                         {Size: 2, Flow: CallIndirect},                            // call *%rax
		"41 ff d3":                      {Size: 3, Flow: CallIndirect},                            // call *%r11
		"3e ff d0":                      {Size: 3, Flow: CallIndirect},                            // notrack call *%rax
		"ff 15 01 02 03 04":             {Size: 6, Flow: CallIndirect},                            // call *x(%rip)
		"ff 50 18":                      {Size: 3, Flow: CallIndirect},                            // call *24(%rax)
		"ff 90 18 01 00 00":             {Size: 6, Flow: CallIndirect},                            // call *280(%rax)
		"ff 14 c5 00 10 00 00":          {Size: 7, Flow: CallIndirect},                            // call *0x1000(,%rax,8)
		"41 ff 54 24 08":                {Size: 5, Flow: CallIndirect},                            // call *8(%r12)
		"f2 ff 25 01 02 03 04":          {Size: 7, Flow: JumpIndirect},                            // bnd jmp *x(%rip)
		"ff 30":                         {Size: 2, MovesStack: true},                              // push (%rax)
		"ff 18":                         {}, "06": {}, "48": {}, "e8 00 00": {}, "62": {}, "": {}, // far, invalid, cut
	} {
		require.Equal(t, want, decodeX86(bytesOf(t, text), 0x1000), text)
	}
}

func TestDecodeA64(t *testing.T) {
	for word, want := range map[uint32]Instruction{
		0x94000004: {Flow: Call, Target: 0x1010, MovesStack: true}, // bl
		0x97fffffe: {Flow: Call, Target: 0x0ff8, MovesStack: true}, // bl, back
		0xd63f0060: {Flow: CallIndirect, MovesStack: true},         // blr x3
		0xd63f087f: {Flow: CallIndirect, MovesStack: true},         // blraaz x3
		0xd61f0220: {Flow: JumpIndirect},                           // br x17
		0xd71f0864: {Flow: JumpIndirect},                           // braa x3, x4
		0x14000001: {Flow: Jump, Target: 0x1004},                   // b
		0x54000000: {Flow: Jump, Target: 0x1000},                   // b.eq
		0xb4fffffe: {Flow: Jump, Target: 0x0ffc},                   // cbz x30
		0x35ffffc1: {Flow: Jump, Target: 0x0ff8},                   // cbnz w1
		0xb60fffa1: {Flow: Jump, Target: 0x0ff4},                   // tbz x1, #33
		0x371fff9e: {Flow: Jump, Target: 0x0ff0},                   // tbnz w30, #3
		0xd65f03c0: {returns: true},                                // ret
		0xa9be7bfd: {MovesStack: true},                             // stp x29, x30, [sp, #-32]!
		0xa8c27bfd: {MovesStack: true},                             // ldp x29, x30, [sp], #32
		0xf81f0ffe: {MovesStack: true},                             // str x30, [sp, #-16]!
		0xf90007fe: {MovesStack: true},                             // str x30, [sp, #8]
		0xf94003fe: {MovesStack: true},                             // ldr x30, [sp]
		0xaa0503fe: {MovesStack: true},                             // mov x30, x5
		0x910003fd: {},                                             // mov x29, sp
		0xd10103ff: {},                                             // sub sp, sp, #64
		0x8b1e0020: {},                                             // add x0, x1, x30
		0xa90153f3: {},                                             // stp x19, x20, [sp, #16]
		0x1e62283e: {},                                             // fadd d30, d1, d2
		0x3dc0001e: {},                                             // ldr q30, [x0]
		0xd503233f: {},                                             // paciasp
	} {
		want.Size = 4
		require.Equal(t, want, decodeA64(binary.LittleEndian.AppendUint32(nil, word), 0x1000), "%08x", word)
	}
	require.Zero(t, decodeA64([]byte{1, 2, 3}, 0))
}

func TestCallEnding(t *testing.T) {
	near := func(addr uint64) bool { return addr >= 0x1000 && addr < 0x3000 }
	for _, c := range []struct {
		machine elf.Machine
		code    string
		want    CallSite
	}{
		{elf.EM_X86_64, "90 90 90 e8 00 01 00 00", CallSite{Call, 0x2100}},
		{elf.EM_X86_64, "e8 00 01 00 00", CallSite{Call, 0x2100}},
		{elf.EM_X86_64, "90 90 90 e8 00 01 01 00", CallSite{}}, // to where no code is
		{elf.EM_X86_64, "90 90 90 e9 00 01 00 00", CallSite{}}, // a jump
		{elf.EM_X86_64, "90 90 90 e8 00 00 ff d0", CallSite{Flow: CallIndirect}},
		{elf.EM_X86_64, "48 89 c7 ff 54 24 08", CallSite{Flow: CallIndirect}},
		{elf.EM_X86_64, "90 41 ff 94 24 00 01 00 00"[3:], CallSite{Flow: CallIndirect}},
		{elf.EM_X86_64, "90 ff 15 00 10 00 00", CallSite{Flow: CallIndirect}},
		{elf.EM_X86_64, "90 90 90 90 90 90 90 90", CallSite{}},
		{elf.EM_X86_64, "d0", CallSite{}},
		{elf.EM_AARCH64, "00 00 00 00 40 00 00 94", CallSite{Call, 0x20fc}},
		{elf.EM_AARCH64, "60 00 3f d6", CallSite{Flow: CallIndirect}},
		{elf.EM_AARCH64, "40 00 00 94 1f 20 03 d5", CallSite{}},
	} {
		require.Equal(t, c.want, CallBefore(DecoderFor(c.machine), bytesOf(t, c.code), 0x2000, near), c.code)
	}
	require.Nil(t, DecoderFor(elf.EM_386))
}

func FuzzInstructions(f *testing.F) {
	f.Add([]byte("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\xe8\x00\x00\x00\x00"), uint64(0x1000))
	f.Add([]byte("\x62\xf1\xfe\x48\x6f\x04\x24\xff\x54\x24\x08"), ^uint64(0))
	f.Add([]byte("\xfd\x7b\xbe\xa9\x04\x00\x00\x94\x60\x00\x3f\xd6"), uint64(4))
	f.Fuzz(func(t *testing.T, code []byte, at uint64) {
		for _, decode := range []Decoder{decodeX86, decodeA64} {
			in := decode(code, at)
			require.LessOrEqual(t, in.Size, min(len(code), MaxInstruction))
			if in.Size > 0 {
				require.Equal(t, in, decode(code[:in.Size], at), "what follows does not matter")
			} else {
				require.Zero(t, in)
			}
			c := CallBefore(decode, code[:min(len(code), 8)], at, func(uint64) bool { return at%2 == 0 })
			require.Contains(t, []Flow{Onward, Call, CallIndirect}, c.Flow)
		}
	})
}
