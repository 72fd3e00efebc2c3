// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// mapped is an address space that shows a file at 0x10000.
func mapped(t testing.TB, img []byte) *AddressSpace {
	t.Helper()
	s := assemble(Config{MemoryBytes: 1 << 20})
	b, err := newBinary("made", fileKey{ino: 1, size: int64(len(img))}, memorySource{bytes.NewReader(img)})
	require.NoError(t, err)
	return &AddressSpace{s: s, regions: []region{place(mapEntry{start: 0x10000, end: 0x20000}, s.register(b), 4096)}}
}

// TestCalledA64 asks about code of arm64: alpha is a leaf, beta calls it.
func TestCalledA64(t *testing.T) {
	img := tinyELF()
	le.PutUint16(img[18:], uint16(elf.EM_AARCH64))
	for i, word := range []uint32{
		0x11000400, 0xd503201f, 0xd65f03c0, 0xd503201f, // alpha: add, nop, ret, nop
		0xd503233f, 0xa9be7bfd, 0x97fffffa, 0xd63f0060, 0xa8c27bfd, 0xd65f03c0, // beta: paciasp, stp, bl alpha, blr x3, ldp, ret
	} {
		le.PutUint32(img[0x200+4*i:], word)
	}
	a := mapped(t, img)
	const alpha, beta, direct, indirect = 0x10200, 0x10210, 0x1021c, 0x10220
	for pc := uint64(alpha); pc < alpha+16; pc += 4 {
		require.True(t, a.Called(pc, direct), "%#x", pc)
		require.True(t, a.Called(pc, indirect), "%#x", pc)
		require.False(t, a.Called(pc, beta), "%#x", pc)
		require.False(t, a.Called(pc, alpha), "%#x", pc)
	}
	require.False(t, a.Called(alpha+2, direct), "no instruction begins there")
	require.True(t, a.Called(beta, indirect), "before paciasp")
	require.True(t, a.Called(beta+4, indirect), "before stp")
	require.False(t, a.Called(beta, direct), "it called alpha")
	for pc := uint64(beta + 8); pc < beta+24; pc += 4 {
		require.False(t, a.Called(pc, indirect), "%#x", pc)
	}
	require.Nil(t, a.s.Stats().LastError)
}

// TestCalledCold asks about a part of a function that the compiler moved away:
// it looks like a function without a frame.
func TestCalledCold(t *testing.T) {
	for name, want := range map[string]bool{"alpha": true, ".cold": false} {
		img := tinyELF()
		copy(img[0x200:], "\x90\x90\x90\x90\x90\x90\xc3")             // alpha
		copy(img[0x210:], "\x55\xe8\xea\xff\xff\xff\xff\xd0\x5d\xc3") // beta: push, call alpha, call *%rax, pop
		copy(img[0x2e1:], name)
		a := mapped(t, img)
		require.Equal(t, want, a.Called(0x10204, 0x10216), name)
		require.Equal(t, want, a.Called(0x10204, 0x10218), name)
		require.False(t, a.Called(0x10217, 0x10218), "after the push")
	}
}

// TestCalledUndecodable has a direct call to a function of which not all code
// before the address is known, and an indirect one.
func TestCalledUndecodable(t *testing.T) {
	img := tinyELF()
	copy(img[0x200:], "\x90\x06\x90\xc3") // 06 is invalid
	copy(img[0x210:], "\x55\xe8\xea\xff\xff\xff\xff\xd0\x5d\xc3")
	a := mapped(t, img)
	require.True(t, a.Called(0x10201, 0x10218), "nothing unknown yet")
	require.True(t, a.Called(0x10202, 0x10216), "the call leads here")
	require.False(t, a.Called(0x10202, 0x10218), "unknown")
	require.Nil(t, a.s.Stats().LastError)
}

// FuzzCalled calls Called for addresses in hostile files.
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
		if err != nil && b.cause != reason.Named {
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
