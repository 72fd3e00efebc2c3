// SPDX-License-Identifier: Apache-2.0

package symbol

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

func TestParseMapLine(t *testing.T) {
	for line, want := range map[string]mapEntry{
		"55c694b83000-55c694b88000 r-xp 00002000 fe:00 247026                     /usr/bin/cat": {
			0x55c694b83000, 0x55c694b88000, 0x2000, 0xfe00, 247026, true, "/usr/bin/cat", false},
		"7fe9963df000-7fe9963e1000 r-xp 00000000 00:00 0                          [vdso]": {
			0x7fe9963df000, 0x7fe9963e1000, 0, 0, 0, true, "[vdso]", false},
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]": {
			0xffffffffff600000, 0xffffffffff601000, 0, 0, 0, true, "[vsyscall]", false},
		"1000-2000 rwxp 00000000 00:00 0 ":                                      {0x1000, 0x2000, 0, 0, 0, true, "", false},
		"1000-2000 rwxp 00000000 00:00 0":                                       {0x1000, 0x2000, 0, 0, 0, true, "", false},
		"1000-2000 r--p 00000000 fe:00 7 /not/executable":                       {0x1000, 0x2000, 0, 0xfe00, 7, false, "", false},
		`1000-2000 r-xs 3000 103:12345 9 /a b\012c (deleted)`:                   {0x1000, 0x2000, 0x3000, 0x12310345, 9, true, "/a b\nc (deleted)", false},
		"1000-2000 r-xp 00000000 00:01 18446744073709551615 /memfd:x (deleted)": {0x1000, 0x2000, 0, 1, 1<<64 - 1, true, "/memfd:x (deleted)", false},
	} {
		got, err := parseMapLine([]byte(line))
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"", "x", "2000-1000 r-xp 0 0:0 0", "1000-2000 r-x 0 0:0 0", "1000-2000 r-xp 0 0:0 x", "1000-2000 r-xp 0 00 0"} {
		_, err := parseMapLine([]byte(line))
		require.ErrorContains(t, err, "parsing maps line", line)
	}
	require.Equal(t, "/x", (&mapEntry{path: "/x (deleted)"}).name())
	require.Equal(t, "/x (deleted)", (&mapEntry{path: "/x (deleted)", whole: true}).name())
}

func TestPlace(t *testing.T) {
	b := &binary{path: "/b", segments: []segment{
		{elfimage.Prog{Off: 0x1123, Vaddr: 0x402123, Filesz: 0xf00, Memsz: 0xf00}, &model.Mapping{Start: 0x402123}},
		{elfimage.Prog{Off: 0x2023, Vaddr: 0x404023, Filesz: 0x3000, Memsz: 0x3000}, &model.Mapping{Start: 0x404023}},
	}}
	for _, c := range []struct {
		start, offset, pc uint64
		want              uint64
		segment           int
	}{
		{0x7f0000001000, 0x1000, 0x7f0000001200, 0x402200, 0},
		{0x7f0000003000, 0x2000, 0x7f0000003100, 0x404100, 1}, // meets the first within its last page
		{0x7f0000004000, 0x3000, 0x7f0000004010, 0x405010, 1}, // the latter part of a split mapping
	} {
		r := place(mapEntry{start: c.start, end: c.start + 0x4000, offset: c.offset}, b, 4096)
		require.Equal(t, c.want, c.pc+r.delta)
		require.Same(t, b.segments[c.segment].mapping, r.mapping)
	}
	r := place(mapEntry{start: 0x1000, end: 0x2000, offset: 0x9000}, b, 4096)
	require.EqualValues(t, 0x9010, 0x1010+r.delta, "no segment: an offset in the file")
	require.Equal(t, &model.Mapping{Start: 0x9000, Limit: 0xa000, FileOffset: 0x9000, Path: "/b"}, r.mapping)
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
		name, kind := demangled(system)
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
	b := builder{
		f: f, text: []elfimage.Span{{Start: 0x1000, End: 0x1400}}, buf: make([]byte, 4096),
		names: reader{newPageCache(0), 1, f.Image}, reserve: func(int, int64) error { return nil },
	}
	table, err := b.build([]symSource{{size: size, entsize: 24, strings: elfimage.Span{Start: size, End: uint64(len(img))}}})
	require.NoError(t, err)
	for addr, want := range map[uint64]string{
		0x0fff: "", 0x1000: "global", 0x100f: "global", 0x1010: "", 0x1020: "ab", 0x1100: "outer", 0x1140: "inner", 0x114f: "inner",
		0x1150: "outer", 0x1160: "outer", 0x11ff: "outer", 0x1200: "", 0x1300: "asm", 0x131f: "asm", 0x1320: "last", 0x13ff: "last", 0x1400: "",
	} {
		got := ""
		if s := table.find(addr); s != nil {
			got = b.name(*s)
		}
		require.Equal(t, want, got, "%#x", addr)
	}
	for addr, want := range map[uint64]string{0x0ffe: "", 0x0fff: "global", 0x1010: "", 0x101e: "", 0x101f: "ab", 0x10ff: "outer", 0x113f: "outer", 0x12ff: "asm"} {
		got := ""
		if s := table.findReturn(addr); s != nil {
			got = b.name(*s)
		}
		require.Equal(t, want, got, "returns to %#x", addr+1)
	}
}
