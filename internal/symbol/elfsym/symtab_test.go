// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	enc "encoding/binary"
	"encoding/hex"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func FuzzNotes(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var id model.BuildID
		ParseNotes(b, &id)
		require.LessOrEqual(t, len(id.GNU), 2*maxBuildID)
	})
}

func FuzzDemangle(f *testing.F) {
	f.Add("_ZN4shop4Cart5totalEi")
	f.Add("_ZN4core3fmt5write17h0123456789abcdefE")
	f.Add("_RNvCs1234_7mycrate3foo")
	f.Add("_ZSt4moveIRSt4pairIS_IS_IS_IS0_S0_ES_IS0_S0_EES_")
	f.Fuzz(func(t *testing.T, name string) {
		got, _ := Demangled(name)
		require.LessOrEqual(t, len(got), max(len(name), 1<<MaxDemangledPow+8))
	})
}

// syntheticSymtab makes n global functions of 16 bytes in a random order, and
// a page of names.
func syntheticSymtab(n int) ([]byte, *elfimage.File) {
	img := make([]byte, n*24+4096)
	rng := rand.New(rand.NewSource(1))
	for i, at := range rng.Perm(n) {
		e := img[i*24:]
		le.PutUint32(e, uint32(1+i%4000))
		e[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
		le.PutUint16(e[6:], 1)
		le.PutUint64(e[8:], 0x1000+uint64(at)*16)
		le.PutUint64(e[16:], 16)
	}
	return img, &elfimage.File{Image: imageOf(img), Is64: true, Machine: elf.EM_X86_64}
}

func imageOf(b []byte) elfimage.Image {
	return elfimage.Image{Src: bytes.NewReader(b), Size: uint64(len(b))}
}

func TestDemangled(t *testing.T) {
	deep := "_Z1f" + strings.Repeat("P", 3000) + "i"
	for system, want := range map[string]struct {
		name string
		kind model.FrameType
	}{
		"main":                                   {"main", model.FrameNative},
		"memcpy@@GLIBC_2.14":                     {"memcpy", model.FrameNative},
		"_ZN4shop4Cart5totalEi":                  {"shop::Cart::total", model.FrameNative},
		"_ZN4core3fmt5write17h0123456789abcdefE": {"core::fmt::write", model.FrameRust},
		"_RNvCs1234_7mycrate3foo":                {"mycrate::foo", model.FrameRust},
		"_Zgarbage":                              {"_Zgarbage", model.FrameNative},
		"_R":                                     {"_R", model.FrameNative},
		"__libc_start_main":                      {"__libc_start_main", model.FrameNative},
		"":                                       {"", model.FrameNative},
		deep:                                     {"f", model.FrameNative},
		"_Z" + strings.Repeat("x", 5000):         {"_Z" + strings.Repeat("x", 5000), model.FrameNative},
	} {
		name, kind := Demangled(system)
		require.Equal(t, want.name, name)
		require.Equal(t, want.kind, kind, system)
	}
}

func TestHTLHash(t *testing.T) {
	for _, n := range []int{0, 10, 4096, 5000, 8192, 100000} {
		b := bytes.Repeat([]byte{1, 2, 3, 5, 7}, n/5)
		h := sha256.New()
		h.Write(b[:min(len(b), 4096)])
		h.Write(b[max(0, len(b)-4096):])
		h.Write(enc.BigEndian.AppendUint64(nil, uint64(len(b))))
		got, err := htlHash(imageOf(b))
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(h.Sum(nil)[:16]), got)
	}
}

// TestSymbolChoice covers aliases, nesting, gaps, labels and unsized symbols.
func TestSymbolChoice(t *testing.T) {
	names := []byte("\x00local\x00global\x00_x\x00abc\x00ab\x00outer\x00inner\x00label\x00asm\x00last\x00")
	at := func(name string) uint32 { return uint32(bytes.Index(names, []byte("\x00"+name+"\x00")) + 1) }
	var img []byte
	add := func(name string, bind elf.SymBind, kind elf.SymType, value, size uint64) {
		e := make([]byte, 24)
		le.PutUint32(e, at(name))
		e[4] = byte(bind)<<4 | byte(kind)
		le.PutUint16(e[6:], 1)
		le.PutUint64(e[8:], value)
		le.PutUint64(e[16:], size)
		img = append(img, e...)
	}
	add("local", elf.STB_LOCAL, elf.STT_FUNC, 0x1000, 16)
	add("global", elf.STB_GLOBAL, elf.STT_FUNC, 0x1000, 16)
	add("_x", elf.STB_GLOBAL, elf.STT_FUNC, 0x1020, 16)
	add("abc", elf.STB_GLOBAL, elf.STT_FUNC, 0x1020, 16)
	add("ab", elf.STB_GLOBAL, elf.STT_FUNC, 0x1020, 16)
	add("outer", elf.STB_GLOBAL, elf.STT_FUNC, 0x1100, 0x100)
	add("inner", elf.STB_LOCAL, elf.STT_FUNC, 0x1140, 0x10)
	add("label", elf.STB_LOCAL, elf.STT_NOTYPE, 0x1160, 0)
	add("asm", elf.STB_LOCAL, elf.STT_NOTYPE, 0x1300, 0)
	add("last", elf.STB_GLOBAL, elf.STT_FUNC, 0x1320, 0)
	add("local", elf.STB_GLOBAL, elf.STT_OBJECT, 0x1330, 8)
	add("local", elf.STB_GLOBAL, elf.STT_FUNC, 0x9000, 8) // no code there
	size := uint64(len(img))
	img = append(img, names...)
	f := &elfimage.File{Image: imageOf(img), Is64: true}
	b := Builder{
		File: f, Text: []elfimage.Span{{Start: 0x1000, End: 0x1400}}, Buf: make([]byte, 4096),
		Names: Reader{Cache: NewPages(0), Owner: 1, Image: f.Image}, Reserve: func(int, int64) error { return nil },
	}
	table, err := b.Build([]Source{{size: size, entsize: 24, strings: elfimage.Span{Start: size, End: uint64(len(img))}}})
	require.NoError(t, err)
	for addr, want := range map[uint64]string{
		0x0fff: "", 0x1000: "global", 0x100f: "global", 0x1010: "", 0x1020: "ab", 0x1100: "outer", 0x1140: "inner", 0x114f: "inner",
		0x1150: "outer", 0x1160: "outer", 0x11ff: "outer", 0x1200: "", 0x1300: "asm", 0x131f: "asm", 0x1320: "last", 0x13ff: "last", 0x1400: "",
	} {
		got := ""
		if s := table.Find(addr); s != nil {
			got = b.name(*s)
		}
		require.Equal(t, want, got, "%#x", addr)
	}
	for addr, want := range map[uint64]string{0x0ffe: "", 0x0fff: "global", 0x1010: "", 0x101e: "", 0x101f: "ab", 0x10ff: "outer", 0x113f: "outer", 0x12ff: "asm"} {
		got := ""
		if s := table.FindReturn(addr); s != nil {
			got = b.name(*s)
		}
		require.Equal(t, want, got, "returns to %#x", addr+1)
	}
}
