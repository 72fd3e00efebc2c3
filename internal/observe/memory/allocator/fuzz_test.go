// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// symbolOf is a function of a file that tinyFile makes, 16 bytes behind the one before.
type symbolOf struct {
	name    string
	kind    elf.SymType
	section elf.SectionIndex
}

// textAt is where the code of tinyFile's files is, in the file; in memory it is at textBase more.
const (
	textAt   = 0x1000
	textBase = 0x400000
)

// tinyFile makes a file with one table of symbols, of a kind.
func tinyFile(kind elf.SectionType, symbols ...symbolOf) []byte {
	names := []byte{0}
	table := make([]byte, elf.Sym64Size)
	for i, s := range symbols {
		var entry [elf.Sym64Size]byte
		binary.LittleEndian.PutUint32(entry[:], uint32(len(names)))
		entry[4] = byte(elf.STB_GLOBAL)<<4 | byte(s.kind)
		binary.LittleEndian.PutUint16(entry[6:], uint16(s.section))
		binary.LittleEndian.PutUint64(entry[8:], uint64(textBase+textAt+16*i))
		table = append(table, entry[:]...)
		names = append(append(names, s.name...), 0)
	}
	const head, program = 64, 56
	tableAt := head + program
	namesAt := tableAt + len(table)
	sectionsAt := namesAt + len(names)
	b := &bytes.Buffer{}
	put := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(b, binary.LittleEndian, v) // to memory
		}
	}
	put([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), uint16(elf.ET_DYN), uint16(machine), uint32(1), uint64(0))
	put(uint64(head), uint64(sectionsAt), uint32(0), uint16(head), uint16(program), uint16(1), uint16(64), uint16(3), uint16(0))
	put(uint32(elf.PT_LOAD), uint32(elf.PF_R|elf.PF_X), uint64(0), uint64(textBase), uint64(0), uint64(0x2000), uint64(0x2000), uint64(0x1000))
	b.Write(table)
	b.Write(names)
	section := func(kind elf.SectionType, off, size int, link uint32, entry uint64) {
		put(uint32(0), uint32(kind), uint64(0), uint64(0), uint64(off), uint64(size), link, uint32(0), uint64(8), entry)
	}
	section(elf.SHT_NULL, 0, 0, 0, 0)
	section(kind, tableAt, len(table), 2, elf.Sym64Size)
	section(elf.SHT_STRTAB, namesAt, len(names), 0, 0)
	return b.Bytes()
}

func function(name string) symbolOf { return symbolOf{name, elf.STT_FUNC, 5} }

func findIn(t testing.TB, file []byte) map[string]Function {
	t.Helper()
	functions, err := Find(elfimage.Image{Src: bytes.NewReader(file), Size: uint64(len(file))})
	require.NoError(t, err)
	return byNames(functions)
}

func byNames(functions []Function) map[string]Function {
	all := map[string]Function{}
	for _, f := range functions {
		all[f.Name] = f
	}
	return all
}

// TestWhichCount holds which of a file's functions count.
func TestWhichCount(t *testing.T) {
	if machine == elf.EM_NONE {
		t.Skip("there is no such machine")
	}
	malloc := Function{Name: "malloc", Call: First, Offset: textAt}
	free := Function{Name: "free", Call: Release, Offset: textAt + 16}
	require.Equal(t, map[string]Function{"malloc": malloc, "free": free},
		findIn(t, tinyFile(elf.SHT_SYMTAB, function("malloc"), function("free"), function("main"), function("_Znwm"))),
		"operators of another library call malloc")
	require.Equal(t, Function{Name: "_Znwm", Call: FirstThrows, Offset: textAt + 48},
		findIn(t, tinyFile(elf.SHT_DYNSYM, function("malloc"), function("free"), function("mallctl"), function("_Znwm")))["_Znwm"],
		"those of jemalloc are its own")
	require.Empty(t, findIn(t, tinyFile(elf.SHT_DYNSYM, symbolOf{"malloc", elf.STT_FUNC, elf.SHN_UNDEF}, function("free"))), "it calls an allocator")
	require.Empty(t, findIn(t, tinyFile(elf.SHT_DYNSYM, symbolOf{"malloc", elf.STT_OBJECT, 5})), "no function")
	require.Equal(t, Reallocate, findIn(t, tinyFile(elf.SHT_SYMTAB, function("_rjem_rallocx")))["_rjem_rallocx"].Call)
	require.Empty(t, findIn(t, tinyFile(elf.SHT_DYNSYM, function("mallocate"), function("my_malloc"), function("mallo"))))
}

// FuzzFind checks that no file makes it fail other than by an error, nor name a function outside of the file.
func FuzzFind(f *testing.F) {
	f.Add([]byte{})
	f.Add(tinyFile(elf.SHT_DYNSYM, function("malloc"), function("free")))
	f.Add(tinyFile(elf.SHT_SYMTAB, function("tc_malloc"), function("_Znwm"), function("_ZdlPv"), function("malloc")))
	truncated := tinyFile(elf.SHT_DYNSYM, function("malloc"), function("realloc"), function("free"))
	f.Add(truncated[:len(truncated)-70])
	huge := tinyFile(elf.SHT_DYNSYM, function("malloc"))
	binary.LittleEndian.PutUint64(huge[len(huge)-64-32:], 1<<63) // the size of the table of symbols
	f.Add(huge)
	endless := tinyFile(elf.SHT_DYNSYM, function("malloc"))
	endless[len(endless)-64-24] = 1 // a table that names itself
	f.Add(endless)
	f.Fuzz(func(t *testing.T, file []byte) {
		functions, err := Find(elfimage.Image{Src: bytes.NewReader(file), Size: uint64(len(file))})
		if err != nil && err.Error() == "" {
			t.Fatal("an error that says nothing")
		}
		for i, one := range functions {
			if one.Name == "" || one.Call < First || int(one.Call) >= Calls {
				t.Fatalf("%+v", one)
			}
			if i > 0 && functions[i-1].Call != Go && one.Offset <= functions[i-1].Offset {
				t.Fatalf("%+v after %+v", one, functions[i-1])
			}
		}
	})
}
