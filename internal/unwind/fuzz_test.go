// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	fuzzText = 0x1000 // code of the made binaries
	fuzzSize = 0x20000
)

// binaryWith makes an ELF file with code that is not in it, and the given
// content as a section.
func binaryWith(machine elf.Machine, name string, content []byte) []byte {
	const names, sections = 0x100, 0x140
	head := make([]byte, sections+3*64)
	copy(head, "\x7fELF\x02\x01\x01")
	le.PutUint16(head[16:], uint16(elf.ET_DYN))
	le.PutUint16(head[18:], uint16(machine))
	le.PutUint64(head[32:], 64)
	le.PutUint64(head[40:], sections)
	le.PutUint16(head[54:], 56)
	le.PutUint16(head[56:], 1)
	le.PutUint16(head[58:], 64)
	le.PutUint16(head[60:], 3)
	le.PutUint16(head[62:], 1)
	p := head[64:]
	le.PutUint32(p, uint32(elf.PT_LOAD))
	le.PutUint32(p[4:], uint32(elf.PF_R|elf.PF_X))
	le.PutUint64(p[16:], fuzzText)
	le.PutUint64(p[32:], uint64(len(head)+len(content)))
	le.PutUint64(p[40:], fuzzSize)
	copy(head[names+1:], name)
	section := func(i int, kind elf.SectionType, name uint32, addr, off, size uint64) {
		s := head[sections+64*i:]
		le.PutUint32(s, name)
		le.PutUint32(s[4:], uint32(kind))
		le.PutUint64(s[16:], addr)
		le.PutUint64(s[24:], off)
		le.PutUint64(s[32:], size)
	}
	section(1, elf.SHT_STRTAB, 0, 0, names, 0x40)
	section(2, elf.SHT_PROGBITS, 1, fuzzText+fuzzSize, uint64(len(head)), uint64(len(content)))
	return append(head, content...)
}

func imageOf(b []byte) elfimage.Image {
	return elfimage.Image{Src: bytes.NewReader(b), Size: uint64(len(b))}
}

// cieBytes is a CIE as compilers write it for x86-64: "zR", code 1, data -8,
// ra 16, absolute addresses; def_cfa rsp 8, offset ra 1. Its id is 0.
func cieBytes(augmentation string, data ...byte) []byte {
	body := []byte{0, 0, 0, 0, 1}
	body = append(append(body, augmentation...), 0, 1, 0x78, 16)
	body = append(body, data...)
	return sized(append(body, cfaDefCFA, 7, 8, cfaOffset|16, 1))
}

// sized puts the length in front of an entry.
func sized(body []byte) []byte { return append(le.AppendUint32(nil, uint32(len(body))), body...) }

// fdeBytes is an entry at the given offset for a CIE at offset 0 of .eh_frame,
// with absolute addresses.
func fdeBytes(off int, start, size uint64, instructions ...byte) []byte {
	body := le.AppendUint32(nil, uint32(off+4))
	body = le.AppendUint64(le.AppendUint64(body, start), size)
	return sized(append(append(body, 0), instructions...))
}

// ehFrameBytes is a section of two functions that overlap.
func ehFrameBytes() []byte {
	b := cieBytes("zR", 1, peAbsolute)
	b = append(b, fdeBytes(len(b), fuzzText+0x10, 0x20000, cfaAdvance|1, cfaDefCFAOffset, 16, cfaOffset|6, 2, cfaRememberState,
		cfaAdvance4, 0, 0, 1, 0, cfaDefCFARegister, 6, cfaAdvance2, 1, 1, cfaRestoreState, cfaAdvance1, 9, cfaDefCFAExpr, 3, 0x76, 0x78, 6)...)
	b = append(b, fdeBytes(len(b), fuzzText+0x100, 0x20, cfaUndefined, 16)...)
	return append(b, 0, 0, 0, 0)
}

// sound checks the invariants of any table.
func sound(t *testing.T, table *Table) {
	t.Helper()
	require.Equal(t, table.Skipped == 0, table.Err == nil)
	require.Equal(t, Rule{}, table.Rules[0])
	require.Len(t, table.Pages, int((table.End-table.Start+PageBytes-1)/PageBytes))
	total := 0
	for _, p := range table.Pages {
		require.LessOrEqual(t, p.Count, uint32(MaxPageRows))
		rows := table.Rows[p.First:][:p.Count]
		for i, row := range rows {
			require.Less(t, int(row&0xffff), len(table.Rules))
			if i == 0 {
				require.Zero(t, row>>16)
				continue
			}
			require.Less(t, rows[i-1]>>16, row>>16)
			require.NotEqual(t, rows[i-1]&0xffff, row&0xffff, "neighbours are merged")
		}
		total += len(rows)
	}
	require.Len(t, table.Rows, total)
}

// FuzzEhFrame reads a section of a hostile binary.
func FuzzEhFrame(f *testing.F) {
	f.Add(ehFrameBytes(), false, false)
	f.Add(ehFrameBytes(), true, true)
	debug := ehFrameBytes()
	for i := range 4 {
		debug[4+i] = 0xff
	}
	f.Add(debug, true, false)
	f.Add(append(bytes.Repeat([]byte{0xff}, 4), bytes.Repeat([]byte{0xfe}, 30)...), false, false)
	f.Add(append(sized([]byte{4, 0, 0, 0, 1, 'z', 'P', 'R', 0}), sized([]byte{4, 0, 0, 0, 1})...), false, true)
	f.Fuzz(func(t *testing.T, content []byte, debug, arm bool) {
		name, machine := ".eh_frame", elf.EM_X86_64
		if debug {
			name = ".debug_frame"
		}
		if arm {
			machine = elf.EM_AARCH64
		}
		table, err := Build(imageOf(binaryWith(machine, name, content)), Limits{Rows: 1 << 20})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		sound(t, table)
	})
}

// FuzzCFA runs hostile call frame instructions.
func FuzzCFA(f *testing.F) {
	f.Add([]byte{cfaDefCFA, 7, 8, cfaOffset | 16, 1}, []byte{cfaAdvance | 4, cfaDefCFAOffset, 16, cfaOffset | 6, 2})
	f.Add([]byte{}, []byte{cfaRememberState, cfaRestoreState, cfaRestoreState})
	f.Add([]byte{cfaDefCFAExpr, 3, 0x76, 0x78, 6}, append([]byte{cfaDefCFAExpr, byte(len(pltExpression))}, pltExpression...))
	f.Add([]byte{cfaAdvance8, 1, 2, 3, 4, 5, 6, 7, 8}, []byte{cfaSetLoc, 0, 0x10, 0, 0, 0, 0, 0, 0, cfaValExpression, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		table := &Table{Start: 0, End: 4 * PageBytes, Pages: make([]Page, 4)}
		p := newPacker(table, 1<<20)
		p.from, p.to = 0x10, table.End
		c := &cie{codeAlign: 1, dataAlign: -8, encoding: peAbsolute}
		m := machine{arch: &x86, cie: c, loc: 0x10, end: table.End}
		if m.run(first) == nil {
			m.initial, m.out, m.loc = m.state, p, 0x10
			if err := m.run(second); err != nil {
				require.ErrorContains(t, err, "instruction 0x")
			}
		}
		p.finish()
		sound(t, table)
	})
}

// goImage is a pclntab of Go 1.20 with two functions in a binary, the first of
// which has a frame of 24 bytes between the addresses 1 and 9.
func goImage() []byte {
	var b []byte
	u32 := func(v ...uint32) {
		for _, x := range v {
			b = le.AppendUint32(b, x)
		}
	}
	u32(elfimage.MagicGo120)
	b = append(b, 0, 0, 1, 8)
	for _, v := range []uint64{2, 1, fuzzText, 72, 96, 100, 104, 120} { // nfunc nfiles text names units files pcs infos
		b = le.AppendUint64(b, v)
	}
	b = append(b, "main.a\x00runtime.goexit\x00\x00\x00"...)         // 72
	u32(0, 0)                                                        // 96: units, files
	b = append(b, 0, 2, 1, 48, 8, 47, 7, 0, 2, 16, 0, 0, 0, 0, 0, 0) // 104: from 1 sizes 0, 24, 0; from 8 size 0
	u32(0, 24, 16, 68, 32)                                           // 120: functions and the end
	b = append(b, 0, 0, 0, 0)
	info := func(entry, name, pcsp uint32, flags byte) {
		u32(entry, name, 0, 0, pcsp, 0, 0, 0, 0, 10)
		b = append(b, 0, flags, 0, 0)
	}
	info(0, 0, 1, 0)
	info(16, 7, 8, elfimage.GoTopFrame)
	return b
}

func TestGoImage(t *testing.T) {
	table, err := Build(imageOf(binaryWith(elf.EM_X86_64, ".gopclntab", goImage())), Limits{})
	require.NoError(t, err)
	sound(t, table)
	require.NoError(t, table.Err)
	bare := Rule{CFA: CFAStackPointer, CFAOffset: 8, RA: Saved, RAOffset: -8, BX: Undefined}
	full := Rule{CFA: CFAStackPointer, CFAOffset: 32, RA: Saved, RAOffset: -8, FP: Saved, FPOffset: -16, BX: Undefined}
	for off, want := range map[uint64]Rule{
		0: bare, 1: full, 8: full, 9: bare, 15: bare, 16: {CFA: CFAEnd}, 31: {CFA: CFAEnd}, 32: {},
	} {
		require.Equal(t, want, table.Lookup(fuzzText+off), "%d", off)
	}
}

// FuzzGo reads a hostile pclntab.
func FuzzGo(f *testing.F) {
	f.Add(goImage(), false)
	f.Add(goImage(), true)
	f.Add(goImage()[:160], false)
	old := goImage()
	le.PutUint32(old, elfimage.MagicGo116)
	f.Add(old, false)
	f.Fuzz(func(t *testing.T, content []byte, arm bool) {
		machine := elf.EM_X86_64
		if arm {
			machine = elf.EM_AARCH64
		}
		table, err := Build(imageOf(binaryWith(machine, ".gopclntab", content)), Limits{Rows: 1 << 20})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		sound(t, table)
	})
}

// FuzzBuild reads a hostile file as a binary and as its debug file.
func FuzzBuild(f *testing.F) {
	f.Add(binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes()))
	f.Add(binaryWith(elf.EM_AARCH64, ".gopclntab", goImage()))
	headless := binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes())
	clear(headless[40:48])
	f.Add(headless)
	compressed := binaryWith(elf.EM_X86_64, ".debug_frame", append(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 3), 0x78, 0x9c))
	compressed[0x140+2*64+9] = byte(elf.SHF_COMPRESSED >> 8)
	f.Add(compressed)
	f.Fuzz(func(t *testing.T, file []byte) {
		table, err := Build(imageOf(file), Limits{Rows: 1 << 16, Text: 1 << 26}, imageOf(file))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		sound(t, table)
	})
}
