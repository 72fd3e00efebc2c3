// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// goText is where the code of goELF begins, goTable its pclntab.
const goText, goTable = 0x200, 0x600

// goELF is an executable of 64 bytes of code with a pclntab, and trees of inlined calls behind it.
func goELF(table, trees []byte) []byte {
	const module, names, sections = 0x240, 0x400, 0x440
	const moduleText, moduleFuncs, moduleWords = 22, 40, 41 // words of runtime.moduledata
	b := make([]byte, goTable, goTable+len(table)+len(trees))
	b = append(append(b, table...), trees...)
	copy(b, "\x7fELF\x02\x01\x01")
	for at, v := range map[int]uint16{16: uint16(elf.ET_EXEC), 18: uint16(elf.EM_X86_64), 54: 56, 56: 2, 58: 64, 60: 4, 62: 3} {
		le.PutUint16(b[at:], v)
	}
	le.PutUint64(b[32:], 64)
	le.PutUint64(b[40:], sections)
	prog := func(i int, flags elf.ProgFlag, off, size uint64) {
		p := b[64+56*i:]
		le.PutUint32(p, uint32(elf.PT_LOAD))
		le.PutUint32(p[4:], uint32(flags))
		for at, v := range map[int]uint64{8: off, 16: off, 32: size, 40: size} {
			le.PutUint64(p[at:], v)
		}
	}
	prog(0, elf.PF_R|elf.PF_X, 0, uint64(len(b)))
	prog(1, elf.PF_R|elf.PF_W, module, 8*moduleWords)
	le.PutUint64(b[module:], goTable)
	le.PutUint64(b[module+8*moduleText:], goText)
	le.PutUint64(b[module+8*moduleFuncs:], goTable+uint64(len(table)))
	copy(b[names:], "\x00.text\x00.gopclntab\x00")
	section := func(i int, name uint32, kind elf.SectionType, flags elf.SectionFlag, off, size uint64) {
		s := b[sections+64*i:]
		le.PutUint32(s, name)
		le.PutUint32(s[4:], uint32(kind))
		for at, v := range map[int]uint64{8: uint64(flags), 16: off, 24: off, 32: size} {
			le.PutUint64(s[at:], v)
		}
	}
	section(1, 1, elf.SHT_PROGBITS, elf.SHF_ALLOC|elf.SHF_EXECINSTR, goText, 64)
	section(2, 7, elf.SHT_PROGBITS, elf.SHF_ALLOC, goTable, uint64(len(table)))
	section(3, 0, elf.SHT_STRTAB, 0, names, 20)
	return b
}

// inlinedTable is a pclntab of Go 1.20 with one function of 16 bytes; its pc-value table of inlined calls begins at the given offset of its
// pc-value tables: at 9 is one in whose first half main.b was inlined, at 4 one in which it was everywhere.
func inlinedTable(inlined uint32) []byte {
	b := le.AppendUint32(nil, elfimage.MagicGo120)
	b = append(b, 0, 0, 1, 8)
	for _, v := range []uint64{1, 1, goText, 72, 88, 92, 104, 120} { // nfunc nfiles text names units files pcs infos
		b = le.AppendUint64(b, v)
	}
	b = append(b, "main.a\x00main.b\x00\x00\x00"...)                 // 72
	b = le.AppendUint32(b, 0)                                        // 88: unit 0, file 0
	b = append(b, "/src/a.go\x00\x00\x00"...)                        // 92
	b = append(b, 0, 24, 16, 0, 2, 16, 0, 0, 0, 2, 8, 1, 8, 0, 0, 0) // 104: from 1 line 11; from 4 0; from 9 0, then -1
	for _, v := range []uint32{0, 12, 16} {                          // 120: functions and the end
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint32{0, 0, 0, 0, 0, 4, 1, 3, 0, 10, 4 << 24, 0, 0, inlined, 0, 0, 0, 0} { // the last are the kinds of data
		b = le.AppendUint32(b, v)
	}
	return b
}

// inlinedTree has main.b, which begins in line 3, at the given address of the function.
func inlinedTree(parent uint32) []byte {
	b := le.AppendUint32(nil, 0)
	for _, v := range []uint32{7, parent, 3} {
		b = le.AppendUint32(b, v)
	}
	return b
}

// inlinedAt names an address of a file.
func inlinedAt(t *testing.T, img []byte, addr uint64) *model.Frame {
	t.Helper()
	s := assemble(Config{MemoryBytes: 1 << 20})
	b, err := newBinary("fuzzed", fileKey{ino: 1, size: int64(len(img))}, memorySource{bytes.NewReader(img)})
	if err != nil && b.cause != reason.Named {
		return nil
	}
	r := place(mapEntry{start: 0x10000, end: 0x20000}, s.register(b), 4096)
	e := s.resolve(nil, &r, addr)
	require.Equal(t, e.cause == reason.Named, len(e.frame.Lines) > 0)
	require.LessOrEqual(t, len(e.frame.Lines), elfsym.MaxInlinedGo+1)
	require.LessOrEqual(t, s.held(), s.memory+1<<20)
	return &e.frame
}

// TestGoInlinedImage has a call that was inlined, one that claims to be inlined into itself, and one that does not exist.
func TestGoInlinedImage(t *testing.T) {
	names := func(f *model.Frame) (list []string) {
		for _, l := range f.Lines {
			require.EqualValues(t, 11, l.Line)
			require.Equal(t, "/src/a.go", l.Function.Filename)
			list = append(list, l.Function.Name)
		}
		return list
	}
	good := goELF(inlinedTable(9), inlinedTree(12))
	require.Equal(t, []string{"main.b", "main.a"}, names(inlinedAt(t, good, goText+4)))
	require.Equal(t, []string{"main.a"}, names(inlinedAt(t, good, goText+12)))
	require.Len(t, names(inlinedAt(t, goELF(inlinedTable(4), inlinedTree(0)), goText)), elfsym.MaxInlinedGo+1, "it ends")
	f := inlinedAt(t, goELF(inlinedTable(9), nil), goText)
	require.Equal(t, "main.a", functionOf(f), "there is no tree")
}

// FuzzGoInlined reads a hostile pclntab and hostile trees of inlined calls.
func FuzzGoInlined(f *testing.F) {
	f.Add(inlinedTable(9), inlinedTree(12), uint64(goText))
	f.Add(inlinedTable(4), inlinedTree(0), uint64(goText+4))
	f.Add(inlinedTable(9), inlinedTree(12)[:7], uint64(goText))
	f.Fuzz(func(t *testing.T, table, trees []byte, addr uint64) {
		inlinedAt(t, goELF(table, trees), addr)
	})
}
