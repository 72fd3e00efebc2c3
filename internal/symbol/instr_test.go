// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"debug/elf"
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
	for text, want := range map[string]inst{
		"f3 0f 1e fa":                   {size: 4},                                                // endbr64
		"55":                            {size: 1, frame: true},                                   // push %rbp
		"40 55":                         {size: 2, frame: true},                                   // the same, longer
		"41 57":                         {size: 2, frame: true},                                   // push %r15
		"5d":                            {size: 1, frame: true},                                   // pop %rbp
		"48 83 ec 18":                   {size: 4, frame: true},                                   // sub $24,%rsp
		"48 81 ec 00 02 00 00":          {size: 7, frame: true},                                   // sub $512,%rsp
		"48 83 fc 18":                   {size: 4},                                                // cmp $24,%rsp
		"48 8d 64 24 f0":                {size: 5, frame: true},                                   // lea -16(%rsp),%rsp
		"48 8d 44 24 f0":                {size: 5},                                                // lea -16(%rsp),%rax
		"48 89 5c 24 f8":                {size: 5},                                                // mov %rbx,-8(%rsp)
		"49 83 ec 18":                   {size: 4},                                                // sub $24,%r12
		"4c 8b 20":                      {size: 3},                                                // mov (%rax),%r12
		"48 8b 20":                      {size: 3, frame: true},                                   // mov (%rax),%rsp
		"48 94":                         {size: 2, frame: true},                                   // xchg %rax,%rsp
		"49 94":                         {size: 2},                                                // xchg %rax,%r12
		"48 b8 01 02 03 04 05 06 07 08": {size: 10},                                               // movabs
		"66 b8 01 02":                   {size: 4},                                                // mov $0x201,%ax
		"f7 c0 01 00 00 00":             {size: 6},                                                // test $1,%eax
		"f7 d8":                         {size: 2},                                                // neg %eax
		"c5 fd 6f 04 25 00 10 00 00":    {size: 9},                                                // vmovdqa 0x1000,%ymm0
		"62 f1 fe 48 6f 04 24":          {size: 7},                                                // vmovdqu64 (%rsp),%zmm0
		"c8 10 00 00":                   {size: 4, frame: true},                                   // enter
		"e8 0b 00 00 00":                {size: 5, flow: call, target: 0x1010},                    // call
		"e9 fb ff ff ff":                {size: 5, flow: jump, target: 0x1000},                    // jmp
		"eb fe":                         {size: 2, flow: jump, target: 0x1000},                    // jmp
		"0f 84 fa ff ff ff":             {size: 6, flow: jump, target: 0x1000},                    // je
		"ff d0":                         {size: 2, flow: callIndirect},                            // call *%rax
		"41 ff d3":                      {size: 3, flow: callIndirect},                            // call *%r11
		"3e ff d0":                      {size: 3, flow: callIndirect},                            // notrack call *%rax
		"ff 15 01 02 03 04":             {size: 6, flow: callIndirect},                            // call *x(%rip)
		"ff 50 18":                      {size: 3, flow: callIndirect},                            // call *24(%rax)
		"ff 90 18 01 00 00":             {size: 6, flow: callIndirect},                            // call *280(%rax)
		"ff 14 c5 00 10 00 00":          {size: 7, flow: callIndirect},                            // call *0x1000(,%rax,8)
		"41 ff 54 24 08":                {size: 5, flow: callIndirect},                            // call *8(%r12)
		"f2 ff 25 01 02 03 04":          {size: 7, flow: jumpIndirect},                            // bnd jmp *x(%rip)
		"ff 30":                         {size: 2, frame: true},                                   // push (%rax)
		"ff 18":                         {}, "06": {}, "48": {}, "e8 00 00": {}, "62": {}, "": {}, // far, invalid, cut
	} {
		require.Equal(t, want, decodeX86(bytesOf(t, text), 0x1000), text)
	}
}

func TestDecodeA64(t *testing.T) {
	for word, want := range map[uint32]inst{
		0x94000004: {flow: call, target: 0x1010, frame: true}, // bl
		0x97fffffe: {flow: call, target: 0x0ff8, frame: true}, // bl, back
		0xd63f0060: {flow: callIndirect, frame: true},         // blr x3
		0xd63f087f: {flow: callIndirect, frame: true},         // blraaz x3
		0xd61f0220: {flow: jumpIndirect},                      // br x17
		0xd71f0864: {flow: jumpIndirect},                      // braa x3, x4
		0x14000001: {flow: jump, target: 0x1004},              // b
		0x54000000: {flow: jump, target: 0x1000},              // b.eq
		0xb4fffffe: {flow: jump, target: 0x0ffc},              // cbz x30
		0x35ffffc1: {flow: jump, target: 0x0ff8},              // cbnz w1
		0xb60fffa1: {flow: jump, target: 0x0ff4},              // tbz x1, #33
		0x371fff9e: {flow: jump, target: 0x0ff0},              // tbnz w30, #3
		0xd65f03c0: {returns: true},                           // ret
		0xa9be7bfd: {frame: true},                             // stp x29, x30, [sp, #-32]!
		0xa8c27bfd: {frame: true},                             // ldp x29, x30, [sp], #32
		0xf81f0ffe: {frame: true},                             // str x30, [sp, #-16]!
		0xf90007fe: {frame: true},                             // str x30, [sp, #8]
		0xf94003fe: {frame: true},                             // ldr x30, [sp]
		0xaa0503fe: {frame: true},                             // mov x30, x5
		0x910003fd: {},                                        // mov x29, sp
		0xd10103ff: {},                                        // sub sp, sp, #64
		0x8b1e0020: {},                                        // add x0, x1, x30
		0xa90153f3: {},                                        // stp x19, x20, [sp, #16]
		0x1e62283e: {},                                        // fadd d30, d1, d2
		0x3dc0001e: {},                                        // ldr q30, [x0]
		0xd503233f: {},                                        // paciasp
	} {
		want.size = 4
		require.Equal(t, want, decodeA64(le.AppendUint32(nil, word), 0x1000), "%08x", word)
	}
	require.Zero(t, decodeA64([]byte{1, 2, 3}, 0))
}

func TestCallEnding(t *testing.T) {
	near := func(addr uint64) bool { return addr >= 0x1000 && addr < 0x3000 }
	for _, c := range []struct {
		machine elf.Machine
		code    string
		want    site
	}{
		{elf.EM_X86_64, "90 90 90 e8 00 01 00 00", site{call, 0x2100}},
		{elf.EM_X86_64, "e8 00 01 00 00", site{call, 0x2100}},
		{elf.EM_X86_64, "90 90 90 e8 00 01 01 00", site{}}, // to where no code is
		{elf.EM_X86_64, "90 90 90 e9 00 01 00 00", site{}}, // a jump
		{elf.EM_X86_64, "90 90 90 e8 00 00 ff d0", site{flow: callIndirect}},
		{elf.EM_X86_64, "48 89 c7 ff 54 24 08", site{flow: callIndirect}},
		{elf.EM_X86_64, "90 41 ff 94 24 00 01 00 00"[3:], site{flow: callIndirect}},
		{elf.EM_X86_64, "90 ff 15 00 10 00 00", site{flow: callIndirect}},
		{elf.EM_X86_64, "90 90 90 90 90 90 90 90", site{}},
		{elf.EM_X86_64, "d0", site{}},
		{elf.EM_AARCH64, "00 00 00 00 40 00 00 94", site{call, 0x20fc}},
		{elf.EM_AARCH64, "60 00 3f d6", site{flow: callIndirect}},
		{elf.EM_AARCH64, "40 00 00 94 1f 20 03 d5", site{}},
	} {
		require.Equal(t, c.want, callEnding(decoderFor(c.machine), bytesOf(t, c.code), 0x2000, near), c.code)
	}
	require.Nil(t, decoderFor(elf.EM_386))
}

func FuzzInstructions(f *testing.F) {
	f.Add([]byte("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\xe8\x00\x00\x00\x00"), uint64(0x1000))
	f.Add([]byte("\x62\xf1\xfe\x48\x6f\x04\x24\xff\x54\x24\x08"), ^uint64(0))
	f.Add([]byte("\xfd\x7b\xbe\xa9\x04\x00\x00\x94\x60\x00\x3f\xd6"), uint64(4))
	f.Fuzz(func(t *testing.T, code []byte, at uint64) {
		for _, decode := range []decoder{decodeX86, decodeA64} {
			in := decode(code, at)
			require.LessOrEqual(t, in.size, min(len(code), maxInst))
			if in.size > 0 {
				require.Equal(t, in, decode(code[:in.size], at), "what follows does not matter")
			} else {
				require.Zero(t, in)
			}
			c := callEnding(decode, code[:min(len(code), 8)], at, func(uint64) bool { return at%2 == 0 })
			require.Contains(t, []flow{onward, call, callIndirect}, c.flow)
		}
	})
}

// FuzzCalled asks about addresses in hostile files.
func FuzzCalled(f *testing.F) {
	f.Add(tinyELF(), uint64(0x10204), uint64(0x10214))
	arm := tinyELF()
	le.PutUint16(arm[18:], uint16(elf.EM_AARCH64))
	f.Add(arm, uint64(0x10204), uint64(0x10214))
	withGo := tinyELF()
	f.Add(append(withGo[:0x200:0x200], goTableImage()...), uint64(0x11004), uint64(0x11010))
	f.Fuzz(func(t *testing.T, img []byte, pc, ret uint64) {
		s := assemble(Config{MemoryBytes: 1 << 20})
		b, err := newBinary("fuzzed", fileKey{ino: 1, size: int64(len(img))}, memorySource{bytes.NewReader(img)})
		if err != nil && b.cause != named {
			return
		}
		b = s.register(b)
		a := &AddressSpace{s: s, regions: []region{place(mapEntry{start: 0x10000, end: 0x20000}, b, 4096)}}
		first := a.Called(pc, ret)
		require.Equal(t, first, a.Called(pc, ret), "remembered")
		a.Called(pc, pc)
		require.LessOrEqual(t, s.held(), s.memory+1<<20)
	})
}
