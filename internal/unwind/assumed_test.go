// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// pushedAt is how far the return address is from the stack pointer, by the address in a section of stubs; 0: unknown.
func pushedAt(ranges []ruleRange, at uint64) int32 {
	for _, p := range ranges {
		if at >= p.start && at < p.end {
			return p.rule.CFAOffset
		}
	}
	return 0
}

// TestStubsX86 reads the stubs that linkers write; what they push is in the comments.
func TestStubsX86(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		want map[uint64]int32
	}{
		"GNU ld, lazy": {
			"\xff\x35\x01\x02\x03\x04\xff\x25\x01\x02\x03\x04\x0f\x1f\x40\x00" + // push [rip]; jmp [rip]; nop
				"\xff\x25\x01\x02\x03\x04\x68\x00\x00\x00\x00\xe9\xe0\xff\xff\xff" + // jmp [rip]; push 0; jmp
				"\xff\x25\x01\x02\x03\x04\x68\x01\x00\x00\x00\xe9\xd0\xff\xff\xff",
			map[uint64]int32{0: 16, 6: 24, 11: 24, 16: 8, 22: 8, 26: 8, 27: 16, 31: 16, 32: 8, 42: 8, 43: 16, 48: 0},
		},
		"GNU ld, endbr64": {
			"\xff\x35\x01\x02\x03\x04\xf2\xff\x25\x01\x02\x03\x04\x0f\x1f\x00" +
				"\xf3\x0f\x1e\xfa\x68\x00\x00\x00\x00\xf2\xe9\xe1\xff\xff\xff\x90" +
				"\xf3\x0f\x1e\xfa\x68\x01\x00\x00\x00\xe9\xe1\xff\xff\xff\x66\x90",
			map[uint64]int32{0: 16, 6: 24, 16: 8, 24: 8, 25: 16, 30: 16, 31: 8, 32: 8, 41: 16, 46: 8},
		},
		"GNU ld, second section": {
			"\xf3\x0f\x1e\xfa\xff\x25\x01\x02\x03\x04\x66\x0f\x1f\x44\x00\x00\xf3\x0f\x1e\xfa\xf2\xff\x25\x01\x02\x03\x04\x0f\x1f\x44\x00\x00",
			map[uint64]int32{0: 8, 4: 8, 15: 8, 31: 8, 32: 0},
		},
		"mold": {
			"\xf3\x0f\x1e\xfa\x41\x53\xff\x35\x01\x02\x03\x04\xff\x25\x01\x02\x03\x04\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc" +
				"\xf3\x0f\x1e\xfa\x41\xbb\x00\x00\x00\x00\xff\x25\x01\x02\x03\x04",
			map[uint64]int32{0: 8, 4: 8, 6: 16, 12: 24, 18: 8, 32: 8, 36: 8, 42: 8},
		},
		"unknown": {
			"\xff\x25\x01\x02\x03\x04\x0f\x0b\x00\x00\x00\x00\x00\x00\x00\x00\xff\x25\x01\x02\x03\x04\x66\x0f\x1f\x44\x00\x00\xcc\xcc\xcc\xcc",
			map[uint64]int32{0: 8, 5: 8, 6: 0, 15: 0, 16: 8, 31: 8},
		},
		"unknown after a push": {
			"\xff\x35\x01\x02\x03\x04\x0f\x0b\x00\x00\x00\x00\x00\x00\x00\x00\xff\x25\x01\x02\x03\x04",
			map[uint64]int32{0: 16, 5: 16, 6: 0, 16: 0},
		},
		"_init": {
			"\xf3\x0f\x1e\xfa\x48\x83\xec\x08\x48\x8b\x05\x01\x02\x03\x04\x48\x85\xc0\x74\x02\xff\xd0\x48\x83\xc4\x08\xc3",
			map[uint64]int32{0: 8, 4: 8, 8: 16, 25: 16, 26: 8, 27: 0},
		},
		"cut short": {"\xff\x25\x01\x02", map[uint64]int32{0: 0}},
		"empty":     {"", map[uint64]int32{0: 0}},
	} {
		ranges := x86.stubs([]byte(c.code), 0x1000)
		for at, want := range c.want {
			require.Equal(t, want, pushedAt(ranges, 0x1000+at), "%s, byte %d", name, at)
		}
	}
}

// TestFinishX86 reads GCC's __do_global_dtors_aux.
func TestFinishX86(t *testing.T) {
	const code = "\xf3\x0f\x1e\xfa\x80\x3d\xad\x28\x73\x00\x00\x75\x2b" + // endbr64; cmpb; jne
		"\x55\x48\x83\x3d\x8a\xdd\x71\x00\x00\x48\x89\xe5\x74\x0c\x48\x8b\x3d\x86\xde\x71\x00" + // push rbp; cmpq; mov; je; mov
		"\xe8\x51\xbf\xf7\xff\xe8\x64\xff\xff\xff\xc6\x05\x85\x28\x73\x00\x01\x5d\xc3\x0f\x1f\x00\xc3" + // call; call; movb; pop; ret; nop; ret
		"\x31\xc0" // another function
	entered := Rule{CFA: CFAStackPointer, CFAOffset: 8, RA: Saved, RAOffset: -8}
	framed := Rule{CFA: CFAStackPointer, CFAOffset: 16, RA: Saved, RAOffset: -8, FP: Saved, FPOffset: -16}
	require.Equal(t, []ruleRange{{0x1000, 0x100e, entered}, {0x100e, 0x1034, framed}, {0x1034, 0x1039, entered}}, x86.finish([]byte(code), 0x1000))
	require.Equal(t, []ruleRange{{0x1000, 0x100a, entered}, {0x100a, 0x1030, framed}, {0x1030, 0x1035, entered}}, x86.finish([]byte(code[4:]), 0x1000))
	require.Empty(t, x86.finish([]byte("\x55\x48\x89\xe5"), 0x1000), "some other function")
	require.Empty(t, arm64.finish([]byte(code), 0x1000))
}

// TestStubsARM64 reads the stubs of lld.
func TestStubsARM64(t *testing.T) {
	code := []byte("\xf0\x7b\xbf\xa9\x90\x00\x00\xb0\x11\x06\x40\xf9\x10\x22\x00\x91\x20\x02\x1f\xd6\x1f\x20\x03\xd5" + // stp; adrp; ldr; add; br x17; nop
		"\x90\x00\x00\xb0\x11\x0a\x40\xf9\x10\x42\x00\x91\x20\x02\x1f\xd6\x00")
	plain, saved := Rule{CFA: CFAStackPointer}, Rule{CFA: CFAStackPointer, CFAOffset: 16, RA: Saved, RAOffset: -8}
	require.Equal(t, []ruleRange{{0x40, 0x44, plain}, {0x44, 0x54, saved}, {0x54, 0x68, plain}}, arm64.stubs(code, 0x40))
}

// FuzzStubs checks that ranges of stubs ascend and lie in the section.
func FuzzStubs(f *testing.F) {
	f.Add([]byte("\xff\x35\x01\x02\x03\x04\xff\x25\x01\x02\x03\x04\x0f\x1f\x40\x00\xff\x25\x01\x02\x03\x04\x68\x00\x00\x00\x00\xe9\xe0\xff\xff\xff"))
	f.Add([]byte("\xf3\x0f\x1e\xfa\x48\x83\xec\x08\x48\x8b\x05\x01\x02\x03\x04\x48\x85\xc0\x74\x02\xff\xd0\x48\x83\xc4\x08\xc3"))
	f.Add([]byte("\xf0\x7b\xbf\xa9\x90\x00\x00\xb0\x20\x02\x1f\xd6"))
	f.Fuzz(func(t *testing.T, code []byte) {
		for _, a := range []*arch{&x86, &arm64} {
			for _, ranges := range [][]ruleRange{a.stubs(code, 0x1000), a.finish(code, 0x1000)} {
				end := uint64(0x1000)
				for _, p := range ranges {
					require.GreaterOrEqual(t, p.start, end)
					require.Greater(t, p.end, p.start)
					end = p.end
				}
				require.LessOrEqual(t, end, 0x1000+uint64(len(code)))
			}
		}
	})
}
