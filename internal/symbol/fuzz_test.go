// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

func FuzzMapLine(f *testing.F) {
	f.Add([]byte("55c694b83000-55c694b88000 r-xp 00002000 fe:00 247026                     /usr/bin/cat"))
	f.Add([]byte(`1000-2000 rwxs 3000 103:12345 9 /a b\012c (deleted)`))
	f.Add([]byte("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseMapLine(line)
		if err != nil {
			return
		}
		require.Less(t, e.start, e.end)
		e.name()
		place(e, &binary{segments: []segment{{elfimage.Prog{Off: 1 << 63, Filesz: 1 << 63}, nil}}}, 4096)
	})
}

// tinyELF is an executable with a code segment, notes, sections and symbols.
func tinyELF() []byte {
	const text, notes, syms, strs, shstr, shdrs = 0x200, 0x240, 0x280, 0x2e0, 0x300, 0x340
	b := make([]byte, shdrs+6*64)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint64(b[32:], 64)
	le.PutUint64(b[40:], shdrs)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 2)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], 5)
	le.PutUint16(b[62:], 4)
	prog := func(i int, kind elf.ProgType, flags elf.ProgFlag, off, size uint64) {
		p := b[64+56*i:]
		le.PutUint32(p, uint32(kind))
		le.PutUint32(p[4:], uint32(flags))
		le.PutUint64(p[8:], off)
		le.PutUint64(p[16:], off)
		le.PutUint64(p[32:], size)
		le.PutUint64(p[40:], size)
	}
	prog(0, elf.PT_LOAD, elf.PF_R|elf.PF_X, 0, uint64(len(b)))
	prog(1, elf.PT_NOTE, elf.PF_R, notes, 20)
	copy(b[notes:], gnuNoteText("\x01\x02\x03\x04"))
	copy(b[strs:], "\x00alpha\x00beta\x00")
	copy(b[shstr:], "\x00.text\x00.symtab\x00.gopclntab\x00")
	for i, s := range []struct{ name, value, size uint32 }{{1, text, 16}, {7, text + 16, 0}} {
		e := b[syms+24*(i+1):]
		le.PutUint32(e, s.name)
		e[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
		le.PutUint16(e[6:], 1)
		le.PutUint64(e[8:], uint64(s.value))
		le.PutUint64(e[16:], uint64(s.size))
	}
	section := func(i int, name uint32, kind elf.SectionType, flags, addr, off, size uint64, link uint32, ent uint64) {
		s := b[shdrs+64*i:]
		le.PutUint32(s, name)
		le.PutUint32(s[4:], uint32(kind))
		le.PutUint64(s[8:], flags)
		le.PutUint64(s[16:], addr)
		le.PutUint64(s[24:], off)
		le.PutUint64(s[32:], size)
		le.PutUint32(s[40:], link)
		le.PutUint64(s[56:], ent)
	}
	section(1, 1, elf.SHT_PROGBITS, uint64(elf.SHF_ALLOC|elf.SHF_EXECINSTR), text, text, 64, 0, 0)
	section(2, 7, elf.SHT_SYMTAB, 0, 0, syms, 72, 3, 24)
	section(3, 0, elf.SHT_STRTAB, 0, 0, strs, 12, 0, 0)
	section(4, 0, elf.SHT_STRTAB, 0, 0, shstr, 32, 0, 0)
	return b
}

func gnuNoteText(id string) string {
	return "\x04\x00\x00\x00" + string(rune(len(id))) + "\x00\x00\x00\x03\x00\x00\x00GNU\x00" + id
}

func imageOf(b []byte) elfimage.Image {
	return elfimage.Image{Src: bytes.NewReader(b), Size: uint64(len(b))}
}

// resolve makes the frame of an address that is not in the cache.
func (s *Symbolizer) resolve(a *AddressSpace, r *region, addr uint64) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolveIn(r.bin, a, r, addr)
}

// goTableImage is a pclntab of Go 1.20 with two functions, that starts at off 0.
func goTableImage() []byte {
	var b []byte
	u32 := func(v ...uint32) {
		for _, x := range v {
			b = le.AppendUint32(b, x)
		}
	}
	u32(elfimage.MagicGo120)
	b = append(b, 0, 0, 1, 8)
	for _, v := range []uint64{2, 1, 0x1000, 72, 88, 92, 104, 120} { // nfunc nfiles text names units files pcs infos
		b = le.AppendUint64(b, v)
	}
	b = append(b, "main.a\x00main.bb\x00\x00"...)                   // 72
	u32(0)                                                          // 88: unit 0, file 0
	b = append(b, "/src/a.go\x00\x00\x00"...)                       // 92
	b = append(b, 0, 2, 16, 0, 24, 8, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0) // 104: file 0; line 11, then 13
	u32(0, 24, 16, 68, 32)                                          // 120: functions and the end
	b = append(b, 0, 0, 0, 0)
	info := func(entry, name uint32) { u32(entry, name, 0, 0, 0, 1, 4, 0, 0, 10, 0) }
	info(0, 0)
	info(16, 7)
	return b
}

func TestGoTableImage(t *testing.T) {
	img := goTableImage()
	f := &elfimage.File{Image: imageOf(img), Is64: true}
	table, text, err := elfimage.ParsePclntab(f, 0, uint64(len(img)), func(int, int64) error { return nil })
	require.NoError(t, err)
	require.EqualValues(t, 0x1000, text)
	table.TextStart = text
	r := elfsym.Reader{Cache: elfsym.NewPages(0), Owner: 1, Image: f.Image}
	require.False(t, table.Covers(0x0fff))
	require.False(t, table.Covers(0x1020))
	for _, c := range []struct {
		addr uint64
		name string
		line int32
	}{{0x1000, "main.a", 11}, {0x1007, "main.a", 11}, {0x1008, "main.a", 13}, {0x101f, "main.bb", 13}} {
		info, err := table.Info(r, table.Find(c.addr))
		require.NoError(t, err)
		name, err := table.Name(r, info)
		require.NoError(t, err)
		require.Equal(t, c.name, name)
		require.EqualValues(t, 10, info.StartLine)
		line, err := table.Value(r, info.PCLine, info, c.addr)
		require.NoError(t, err)
		require.Equal(t, c.line, line)
		number, err := table.Value(r, info.PCFile, info, info.Entry)
		require.NoError(t, err)
		file, err := table.Filename(r, info, number)
		require.NoError(t, err)
		require.Equal(t, "/src/a.go", file)
	}
}

// FuzzELF runs all code that reads a file.
func FuzzELF(f *testing.F) {
	f.Add(tinyELF(), uint64(0x204))
	f.Add(tinyELF()[:0x340], uint64(0x204))
	withGo := tinyELF()
	f.Add(append(withGo[:0x200:0x200], goTableImage()...), uint64(0x1004))
	f.Fuzz(func(t *testing.T, img []byte, addr uint64) {
		s := assemble(Config{MemoryBytes: 1 << 20})
		b, err := newBinary("fuzzed", fileKey{ino: 1, size: int64(len(img))}, memorySource{bytes.NewReader(img)})
		if err != nil && b.cause != reason.Named {
			return
		}
		b = s.register(b)
		r := place(mapEntry{start: 0x10000, end: 0x20000}, b, 4096)
		for _, a := range []uint64{addr, addr + 1, 0, ^uint64(0)} {
			e := s.resolve(nil, &r, a)
			require.NotNil(t, e)
			require.Equal(t, e.cause == reason.Named, len(e.frame.Lines) == 1)
		}
		require.LessOrEqual(t, s.held(), s.memory+1<<20)
	})
}

// FuzzLines runs all code that reads a file for lines.
func FuzzLines(f *testing.F) {
	f.Add(tinyELF(), uint64(0x204))
	for _, name := range []string{"gcc-dwarf4", "clang-dwarf5"} {
		img, err := os.ReadFile("../debuginfo/testdata/bin/" + name)
		require.NoError(f, err)
		parsed, err := elfimage.Parse(imageOf(img))
		require.NoError(f, err)
		sections, err := parsed.Sections()
		require.NoError(f, err)
		f.Add(img, parsed.SectionNamed(sections, ".text").Addr+0x100)
	}
	f.Fuzz(func(t *testing.T, img []byte, addr uint64) {
		s := assemble(Config{MemoryBytes: 1 << 20, DebugInfo: true})
		b, err := newBinary("fuzzed", fileKey{ino: 1, size: int64(len(img))}, memorySource{bytes.NewReader(img)})
		if err != nil && b.cause != reason.Named {
			return
		}
		b = s.register(b)
		m := newLineTables(s, nil, 256<<10)
		j := &lineJob{bin: b, file: b.file}
		for _, symbol := range []*model.Function{nil, {SystemName: "main"}} {
			e := &entry{frame: model.Frame{Address: addr}, line: [1]model.Line{{Function: symbol}}}
			for _, l := range m.find(j, wantedLines{e, addr &^ 15}) {
				require.LessOrEqual(t, len(l.name), max(len(l.system), 1<<elfsym.MaxDemangledPow+8))
			}
		}
		m.rest(j)
		require.LessOrEqual(t, m.bytes(), m.limit)
		require.NoError(t, m.close())
	})
}

// FuzzPclntab reads functions of a Go table.
func FuzzPclntab(f *testing.F) {
	f.Add(goTableImage(), uint64(0x1008))
	old := goTableImage()
	le.PutUint32(old, elfimage.MagicGo116)
	f.Add(old, uint64(8))
	le.PutUint32(old, elfimage.MagicGo12)
	f.Add(old, uint64(8))
	f.Fuzz(func(t *testing.T, img []byte, addr uint64) {
		file := &elfimage.File{Image: imageOf(img), Is64: len(img)%2 == 0}
		table, text, err := elfimage.ParsePclntab(file, 0, uint64(len(img)), func(n int, _ int64) error {
			if n > 1<<16 {
				return reason.ErrTooLarge
			}
			return nil
		})
		if err != nil {
			return
		}
		table.TextStart = text
		if !table.Covers(addr) {
			return
		}
		r := elfsym.Reader{Cache: elfsym.NewPages(0), Owner: 1, Image: file.Image}
		info, err := table.Info(r, table.Find(addr))
		if err != nil {
			return
		}
		for _, read := range []func() error{
			func() error { _, err := table.Name(r, info); return err },
			func() error { _, err := table.Filename(r, info, int32(addr)); return err },
			func() error { _, err := table.Value(r, info.PCLine, info, addr); return err },
		} {
			if err := read(); err != nil {
				require.NotEmpty(t, err.Error())
			}
		}
	})
}
