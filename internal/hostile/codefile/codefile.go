// SPDX-License-Identifier: Apache-2.0

// Package codefile writes ELF files of many small functions that can be mapped and executed.
package codefile

import (
	"bufio"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// SlotBytes is the size of each function, and the distance between two.
const SlotBytes = 16

// TextOffset is where the first function is in the file, and its virtual address.
const TextOffset = 4096

var le = enc.LittleEndian

// Spec describes a file.
type Spec struct {
	// Name gives the symbol of the i-th function of Functions.
	Name      func(i int) string
	Functions int
	// Loops is how many turns each function makes, of about one cycle each.
	Loops uint32
	// Stripped leaves the symbols out.
	Stripped bool
	// Hole is the size of a section of strings that the file ends with, which is a hole. The receiver reads it to compare files.
	Hole int64
	// BuildID is the file's, none when empty.
	BuildID []byte
	// DebugLink names a debug file by its checksum, none when empty.
	DebugLink string
	DebugCRC  uint32
}

// Write writes a file to path, readable and executable by everyone.
func Write(path string, s Spec) (err error) {
	slot, err := code(s.Loops)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("creating a file of functions: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	end := write(w, s, slot)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing a file of functions: %w", err)
	}
	if s.Hole > 0 {
		return f.Truncate(end + s.Hole)
	}
	return nil
}

// part is a section: its header and how it is written.
type part struct {
	name    string
	kind    elf.SectionType
	flags   elf.SectionFlag
	addr    uint64
	size    uint64
	link    uint32
	entsize uint64
	write   func(w *bufio.Writer)
}

// plain is a section with the given content.
func plain(name string, kind elf.SectionType, content []byte) part {
	return part{name: name, kind: kind, size: uint64(len(content)), write: func(w *bufio.Writer) {
		w.Write(content) //nolint:errcheck // see write
	}}
}

// write ignores the errors of w, which keeps the first one for Flush, and returns the size of the file without its hole.
func write(w *bufio.Writer, s Spec, slot [SlotBytes]byte) (end int64) {
	parts := s.parts(slot)
	texts := []byte{0}
	var headers [][]byte
	at, text := uint64(TextOffset), parts[0].size
	note, noteSize := uint64(0), uint64(0)
	headers = append(headers, section(0, part{}, 0))
	hole := 0
	for i := range parts {
		p := &parts[i]
		name := len(texts)
		texts = append(append(texts, p.name...), 0)
		if i == len(parts)-1 { // the names of the sections
			*p = plain(p.name, p.kind, texts)
		}
		headers = append(headers, section(uint32(name), *p, at)) //nolint:gosec // a few names
		if p.name == holeSection {
			hole = i + 1
			continue
		}
		if p.kind == elf.SHT_NOTE {
			note, noteSize = at, p.size
		}
		at += aligned(p.size)
	}
	end = int64(at) + int64(len(headers))*64 //nolint:gosec // a few MiB
	if hole > 0 {
		le.PutUint64(headers[hole][24:], uint64(end)) //nolint:gosec // likewise
	}
	w.Write(header(text, note, noteSize, at, len(headers))) //nolint:errcheck // see above
	for _, p := range parts {
		if p.write == nil {
			continue // the hole
		}
		p.write(w)
		w.Write(make([]byte, aligned(p.size)-p.size)) //nolint:errcheck // see above
	}
	for _, h := range headers {
		w.Write(h) //nolint:errcheck // see above
	}
	return end
}

// holeSection is the section of the hole.
const holeSection = ".dynstr"

func aligned(n uint64) uint64 { return (n + 7) &^ 7 }

// parts are the sections of a file: the functions first and the names of the sections last.
func (s Spec) parts(slot [SlotBytes]byte) []part {
	list := []part{{
		name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, addr: TextOffset, size: uint64(s.Functions) * SlotBytes,
		write: func(w *bufio.Writer) {
			for range s.Functions {
				w.Write(slot[:]) //nolint:errcheck // see write
			}
		},
	}}
	if !s.Stripped {
		list = append(list, s.symbols(uint32(len(list)+2)), s.names()) //nolint:gosec // few sections
	}
	if s.Hole > 0 {
		list = append(list, part{name: holeSection, kind: elf.SHT_STRTAB, size: uint64(s.Hole)}) //nolint:gosec // above 0
	}
	if len(s.BuildID) > 0 {
		note := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), uint32(len(s.BuildID))), 3) //nolint:gosec // some bytes
		list = append(list, plain(".note.gnu.build-id", elf.SHT_NOTE, append(append(note, "GNU\x00"...), s.BuildID...)))
	}
	if s.DebugLink != "" {
		link := append([]byte(s.DebugLink), 0)
		link = append(link, make([]byte, -len(link)&3)...)
		list = append(list, plain(".gnu_debuglink", elf.SHT_PROGBITS, le.AppendUint32(link, s.DebugCRC)))
	}
	return append(list, part{name: ".shstrtab", kind: elf.SHT_STRTAB})
}

// symbols is the symbol table, whose names are in the section with the given number.
func (s Spec) symbols(names uint32) part {
	return part{
		name: ".symtab", kind: elf.SHT_SYMTAB, size: uint64(s.Functions+1) * elf.Sym64Size, link: names, entsize: elf.Sym64Size,
		write: func(w *bufio.Writer) {
			var sym [elf.Sym64Size]byte
			w.Write(sym[:]) //nolint:errcheck // see write
			at := uint32(1)
			for i := range s.Functions {
				le.PutUint32(sym[:], at)
				sym[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
				le.PutUint16(sym[6:], 1)
				le.PutUint64(sym[8:], TextOffset+uint64(i)*SlotBytes)
				le.PutUint64(sym[16:], SlotBytes)
				w.Write(sym[:]) //nolint:errcheck // see write
				at += uint32(len(s.Name(i))) + 1
			}
		},
	}
}

func (s Spec) names() part {
	size := uint64(1)
	for i := range s.Functions {
		size += uint64(len(s.Name(i))) + 1
	}
	return part{name: ".strtab", kind: elf.SHT_STRTAB, size: size, write: func(w *bufio.Writer) {
		w.WriteByte(0) //nolint:errcheck // see write
		for i := range s.Functions {
			w.WriteString(s.Name(i)) //nolint:errcheck // see write
			w.WriteByte(0)           //nolint:errcheck // see write
		}
	}}
}

// header is the ELF header with one executable segment and, unless it is empty, one of notes, up to TextOffset. The last one of the sections has
// their names.
func header(text, note, noteSize, sections uint64, count int) []byte {
	b := make([]byte, TextOffset)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint32(b[20:], uint32(elf.EV_CURRENT))
	le.PutUint64(b[32:], 64) // program headers
	le.PutUint64(b[40:], sections)
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], uint16(count))   //nolint:gosec // few sections
	le.PutUint16(b[62:], uint16(count-1)) //nolint:gosec // likewise
	p := b[64:]
	le.PutUint32(p, uint32(elf.PT_LOAD))
	le.PutUint32(p[4:], uint32(elf.PF_R|elf.PF_X))
	le.PutUint64(p[8:], TextOffset)
	le.PutUint64(p[16:], TextOffset)
	le.PutUint64(p[24:], TextOffset)
	le.PutUint64(p[32:], text)
	le.PutUint64(p[40:], text)
	le.PutUint64(p[48:], TextOffset)
	if noteSize > 0 {
		le.PutUint16(b[56:], 2)
		p = p[56:]
		le.PutUint32(p, uint32(elf.PT_NOTE))
		le.PutUint32(p[4:], uint32(elf.PF_R))
		le.PutUint64(p[8:], note)
		le.PutUint64(p[32:], noteSize)
		le.PutUint64(p[40:], noteSize)
		le.PutUint64(p[48:], 4)
	}
	return b
}

func section(name uint32, p part, off uint64) []byte {
	b := make([]byte, 64)
	le.PutUint32(b, name)
	le.PutUint32(b[4:], uint32(p.kind))
	le.PutUint64(b[8:], uint64(p.flags))
	le.PutUint64(b[16:], p.addr)
	le.PutUint64(b[24:], off)
	le.PutUint64(b[32:], p.size)
	le.PutUint32(b[40:], p.link)
	le.PutUint64(b[48:], 1)
	le.PutUint64(b[56:], p.entsize)
	return b
}

// code counts down in a register that callers save, and returns.
func code(loops uint32) (slot [SlotBytes]byte, err error) {
	switch runtime.GOARCH {
	case "amd64":
		copy(slot[:], "\xb9\x00\x00\x00\x00\xff\xc9\x75\xfc\xc3") // mov ecx, loops; dec ecx; jnz; ret
		le.PutUint32(slot[1:], max(loops, 1))
	case "arm64":
		le.PutUint32(slot[0:], 0x52a00000|min(max(loops>>16, 1), 0xffff)<<5) // movz w0, loops>>16, lsl 16
		le.PutUint32(slot[4:], 0x71000400)                                   // subs w0, w0, 1
		le.PutUint32(slot[8:], 0x54ffffe1)                                   // b.ne to it
		le.PutUint32(slot[12:], 0xd65f03c0)                                  // ret
	default:
		return slot, fmt.Errorf("functions for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	return slot, nil
}
