// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"bytes"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"fmt"
)

// debug/elf reads and keeps every section header that a file claims to have,
// gigabytes of them if need be. This reader has the same constants and a bound.
const (
	maxProgs    = 256
	maxSections = 1 << 14
	// Bounds of the bytes of one section's name that are read, and of all names that are read at once.
	maxSectionName, maxSectionNames = 64, 4 << 10
)

var (
	// ErrNotELF is the cause when a file does not begin as an ELF file does.
	ErrNotELF = errors.New("not an ELF file")
	// ErrByteOrder is the cause when a file is for big-endian machines.
	ErrByteOrder = errors.New("not in little-endian byte order")
)

var le = enc.LittleEndian

// File is the header and the program headers of an ELF file. Format: elf(5).
type File struct {
	Image
	Is64    bool
	Type    elf.Type
	Machine elf.Machine
	Entry   uint64 // address where the kernel or the loader begins; 0: none
	Progs   []Prog
	// Where the section headers are; shnum is 0 when there are none.
	shoff                  uint64
	shnum, shent, shstrndx uint16
}

// Prog is a program header: a segment. Off and Filesz are in the file, Vaddr
// and Memsz in memory before relocation, all in bytes.
type Prog struct {
	Type                      elf.ProgType
	Flags                     elf.ProgFlag
	Off, Vaddr, Filesz, Memsz uint64
}

// Section is a section header; sizes are in bytes, Name is the name's offset
// in the table of section names.
type Section struct {
	Name                     uint32
	Type                     elf.SectionType
	Flags                    elf.SectionFlag
	Addr, Off, Size, Entsize uint64
	Link                     uint32
}

// Parse reads the header and the program headers. See elf(5).
func Parse(m Image) (*File, error) {
	var h [64]byte
	n := min(uint64(len(h)), m.Size)
	if err := m.Read(h[:n], 0); err != nil {
		return nil, err
	}
	if n < 52 || string(h[:4]) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	if elf.Data(h[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, ErrByteOrder
	}
	f := &File{Image: m, Type: elf.Type(le.Uint16(h[16:])), Machine: elf.Machine(le.Uint16(h[18:]))}
	var phoff uint64
	var rest []byte // from e_phentsize on
	switch elf.Class(h[elf.EI_CLASS]) {
	case elf.ELFCLASS64:
		if n < 64 {
			return nil, ErrTruncated
		}
		f.Is64, phoff, f.shoff, rest = true, le.Uint64(h[32:]), le.Uint64(h[40:]), h[54:]
		f.Entry = le.Uint64(h[24:])
	case elf.ELFCLASS32:
		phoff, f.shoff, rest = uint64(le.Uint32(h[28:])), uint64(le.Uint32(h[32:])), h[42:]
		f.Entry = uint64(le.Uint32(h[24:]))
	default:
		return nil, fmt.Errorf("class %d: %w", h[elf.EI_CLASS], ErrNotELF)
	}
	f.shent, f.shnum, f.shstrndx = le.Uint16(rest[4:]), le.Uint16(rest[6:]), le.Uint16(rest[8:])
	if f.shoff == 0 || f.shnum > maxSections || int(f.shent) < f.Pick(64, 40) {
		f.shnum = 0
	}
	if err := f.readProgs(phoff, le.Uint16(rest), le.Uint16(rest[2:])); err != nil {
		return nil, fmt.Errorf("program headers: %w", err)
	}
	return f, nil
}

// Pick chooses a size by the class of the file.
func (f *File) Pick(size64, size32 int) int {
	if f.Is64 {
		return size64
	}
	return size32
}

// Word decodes a pointer-sized field.
func (f *File) Word(b []byte) uint64 {
	if f.Is64 {
		return le.Uint64(b)
	}
	return uint64(le.Uint32(b))
}

func (f *File) readProgs(off uint64, entsize, num uint16) error {
	if num > maxProgs || num > 0 && int(entsize) < f.Pick(56, 32) {
		return fmt.Errorf("%d of %d bytes each: out of bounds", num, entsize)
	}
	table := make([]byte, int(num)*int(entsize))
	if err := f.Read(table, off); err != nil {
		return err
	}
	f.Progs = make([]Prog, num)
	for i := range f.Progs {
		b := table[i*int(entsize):]
		p := &f.Progs[i]
		p.Type = elf.ProgType(le.Uint32(b))
		if f.Is64 {
			p.Flags = elf.ProgFlag(le.Uint32(b[4:]))
			p.Off, p.Vaddr = le.Uint64(b[8:]), le.Uint64(b[16:])
			p.Filesz, p.Memsz = le.Uint64(b[32:]), le.Uint64(b[40:])
			continue
		}
		p.Off, p.Vaddr = uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
		p.Filesz, p.Memsz = uint64(le.Uint32(b[16:])), uint64(le.Uint32(b[20:]))
		p.Flags = elf.ProgFlag(le.Uint32(b[24:]))
	}
	return nil
}

// Sections reads the section headers, none when the file has none.
func (f *File) Sections() ([]Section, error) {
	table := make([]byte, int(f.shnum)*int(f.shent))
	if err := f.Read(table, f.shoff); err != nil {
		return nil, fmt.Errorf("section headers: %w", err)
	}
	out := make([]Section, f.shnum)
	for i := range out {
		b := table[i*int(f.shent):]
		s := &out[i]
		s.Name, s.Type = le.Uint32(b), elf.SectionType(le.Uint32(b[4:]))
		if f.Is64 {
			s.Flags = elf.SectionFlag(le.Uint64(b[8:]))
			s.Addr, s.Off, s.Size = le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])
			s.Link, s.Entsize = le.Uint32(b[40:]), le.Uint64(b[56:])
			continue
		}
		s.Flags = elf.SectionFlag(le.Uint32(b[8:]))
		s.Addr, s.Off, s.Size = uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:])), uint64(le.Uint32(b[20:]))
		s.Link, s.Entsize = le.Uint32(b[24:]), uint64(le.Uint32(b[36:]))
	}
	return out, nil
}

// SectionNamed finds a section by one of several names, nil when there is none.
func (f *File) SectionNamed(all []Section, names ...string) *Section {
	var found *Section
	f.eachName(all, func(s *Section, b []byte) bool {
		for _, name := range names {
			if len(b) > len(name) && string(b[:len(name)]) == name && b[len(name)] == 0 {
				found = s
			}
		}
		return found == nil
	})
	return found
}

// EachSection calls visit with each section that has a readable name of at
// most 63 bytes.
func (f *File) EachSection(all []Section, visit func(name string, s *Section)) {
	f.eachName(all, func(s *Section, b []byte) bool {
		if n := bytes.IndexByte(b, 0); n > 0 {
			visit(string(b[:n]), s)
		}
		return true
	})
}

// eachName calls visit with each section that has a readable name and the bytes from the beginning of that name, at most maxSectionName,
// until visit returns false.
func (f *File) eachName(all []Section, visit func(s *Section, b []byte) bool) {
	if int(f.shstrndx) >= len(all) {
		return
	}
	str := all[f.shstrndx]
	var names, buf []byte
	if whole := make([]byte, min(str.Size, maxSectionNames)); f.Read(whole, str.Off) == nil {
		names = whole // most files have all of them here: one read instead of one for each section
	}
	for i := range all {
		at := min(str.Size, uint64(all[i].Name))
		n := min(maxSectionName, str.Size-at)
		b := names[min(uint64(len(names)), at):]
		if uint64(len(b)) < n {
			if buf == nil {
				buf = make([]byte, maxSectionName)
			}
			b = buf[:n]
			if f.Read(b, str.Off+at) != nil {
				continue
			}
		}
		if !visit(&all[i], b[:n]) {
			return
		}
	}
}

// OffsetOf returns the offset in the file of the memory at vaddr.
func (f *File) OffsetOf(vaddr uint64) (uint64, bool) {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type == elf.PT_LOAD && vaddr >= p.Vaddr && vaddr-p.Vaddr < p.Filesz {
			return vaddr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// Span is a range of virtual addresses or of offsets in a file; End is the
// first one beyond.
type Span struct{ Start, End uint64 }

// Contains reports whether addr is in the range.
func (s Span) Contains(addr uint64) bool { return addr >= s.Start && addr < s.End }

// Executable returns the ranges that contain code: the sections if there are any, else the segments.
func (f *File) Executable(sections []Section) []Span {
	var out []Span
	for _, s := range sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Flags&elf.SHF_ALLOC != 0 && s.Addr+s.Size > s.Addr {
			out = append(out, Span{s.Addr, s.Addr + s.Size})
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr+p.Memsz > p.Vaddr {
			out = append(out, Span{p.Vaddr, p.Vaddr + p.Memsz})
		}
	}
	return out
}
