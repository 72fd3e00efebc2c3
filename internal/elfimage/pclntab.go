// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"sort"
)

// Magic numbers of Go's pclntab by the first release that wrote them, from
// internal/abi/symtab.go.
const (
	MagicGo12  = 0xfffffffb
	MagicGo116 = 0xfffffffa
	MagicGo118 = 0xfffffff0
	MagicGo120 = 0xfffffff1
)

const (
	maxGoFuncs   = 1 << 23
	goEntryBytes = 8
	maxPclntab   = 1 << 31
	// maxPclntabSearch bounds the bytes of segments that are searched for a table without a section. A file may have many segments, which
	// all are the same, sparse gigabytes.
	maxPclntabSearch = 256 << 20
)

var errBadPclntab = errors.New("pclntab contradicts itself")

// goEntry is one entry of the function table.
type goEntry struct {
	entry uint32 // from textStart
	info  uint32 // offset of the _func, from funcs
}

// GoTable is the function table of a Go binary. Only the addresses are in
// memory; the rest is read from the file.
type GoTable struct {
	version uint32 // the magic
	is64    bool
	quantum uint32 // smallest instruction, the unit of pc deltas
	file    uint64 // where the table is in the file
	size    uint64
	// TextStart is the virtual address that entries count from; ResolveText sets it.
	TextStart uint64
	// Offsets from the start of the table.
	names, units, files, pcs, infos uint64
	entries                         []goEntry // the last one only marks the end
	// inlined is where in the file trees of inlined calls count from; see ResolveInline.
	inlined uint64
}

// Bytes is the memory that the table holds.
func (t *GoTable) Bytes() int64 { return int64(cap(t.entries)) * goEntryBytes }

// Len is the number of functions.
func (t *GoTable) Len() int { return len(t.entries) - 1 }

// Entry returns the virtual address of the i-th function; that of Len is the end of the last one.
func (t *GoTable) Entry(i int) uint64 { return t.TextStart + uint64(t.entries[i].entry) }

func (t *GoTable) word() uint64 {
	if t.is64 {
		return 8
	}
	return 4
}

// Covers reports whether addr is in the text that the table describes.
func (t *GoTable) Covers(addr uint64) bool {
	if addr < t.TextStart {
		return false
	}
	rel := addr - t.TextStart
	return rel >= uint64(t.entries[0].entry) && rel < uint64(t.entries[len(t.entries)-1].entry)
}

// Find returns the index of the function at addr, which the table must cover.
func (t *GoTable) Find(addr uint64) int {
	rel := uint32(addr - t.TextStart)
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].entry > rel }) - 1
}

// Reserver reserves memory for a table, or returns an error if it is too large.
type Reserver func(entries int, each int64) error

// isPclntab reports whether bytes are the header of a table.
func isPclntab(h []byte) bool {
	if len(h) < 8 {
		return false
	}
	switch le.Uint32(h) {
	case MagicGo12, MagicGo116, MagicGo118, MagicGo120:
	default:
		return false
	}
	return h[4] == 0 && h[5] == 0 && (h[6] == 1 || h[6] == 2 || h[6] == 4) && (h[7] == 4 || h[7] == 8)
}

// ParsePclntab reads the header at off, the layout of which is that of runtime.pcHeader, and the function table. Entries are relative to the
// table's own first function (before Go 1.18) or to a text start that ResolveText finds; reserve reserves memory for it.
func ParsePclntab(f *File, off, size uint64, reserve Reserver) (*GoTable, uint64, error) {
	var h [72]byte
	if size > maxPclntab || !f.Has(off, size) {
		return nil, 0, ErrTruncated
	}
	n := min(size, uint64(len(h)))
	if err := f.Read(h[:n], off); err != nil {
		return nil, 0, err
	}
	if !isPclntab(h[:n]) {
		return nil, 0, fmt.Errorf("header %x: %w", h[:8], errBadPclntab)
	}
	t := &GoTable{version: le.Uint32(h[:]), quantum: uint32(h[6]), is64: h[7] == 8, file: off, size: size}
	field := func(i uint64) uint64 {
		if t.is64 {
			return le.Uint64(h[8+8*i:])
		}
		return uint64(le.Uint32(h[8+4*i:]))
	}
	var text, table uint64
	switch count := field(0); {
	case count == 0 || count > maxGoFuncs:
		return nil, 0, fmt.Errorf("%d functions: %w", count, errBadPclntab)
	case t.version == MagicGo12:
		table = 8 + t.word()
	case t.version == MagicGo116:
		t.names, t.units, t.files, t.pcs, t.infos = field(2), field(3), field(4), field(5), field(6)
		table = t.infos
	default:
		text = field(2)
		t.names, t.units, t.files, t.pcs, t.infos = field(3), field(4), field(5), field(6), field(7)
		table = t.infos
	}
	if max(t.names, t.units, t.files, t.pcs, t.infos) > size {
		return nil, 0, errBadPclntab
	}
	if err := reserve(int(field(0))+1, goEntryBytes); err != nil {
		return nil, 0, err
	}
	return t, text, t.readEntries(f, table, int(field(0)))
}

// readEntries reads the function table: count pairs of entry and _func, and
// the end of the last function.
func (t *GoTable) readEntries(f *File, table uint64, count int) error {
	unit := uint64(4)
	if t.version == MagicGo12 || t.version == MagicGo116 {
		unit = t.word()
	}
	bytes := (2*uint64(count) + 1) * unit
	if table > t.size || bytes > t.size-table {
		return fmt.Errorf("function table: %w", errBadPclntab)
	}
	get := func(b []byte) uint64 {
		if unit == 8 {
			return le.Uint64(b)
		}
		return uint64(le.Uint32(b))
	}
	t.entries = make([]goEntry, 0, count+1)
	ok := true
	add := func(_ uint64, b []byte) bool {
		for ; ok && len(b) > 0; b = b[2*unit:] {
			ok = t.add(get(b), get(b[unit:]), unit == t.word() && t.version != MagicGo118 && t.version != MagicGo120)
		}
		return ok
	}
	buf := make([]byte, 16<<10)
	if err := f.Chunks(buf, t.file+table, bytes-unit, 2*unit, add); err != nil {
		return fmt.Errorf("function table: %w", err)
	}
	if err := f.Read(buf[:unit], t.file+table+bytes-unit); err != nil {
		return fmt.Errorf("function table: %w", err)
	}
	if !ok || !t.add(get(buf), 0, unit == t.word() && t.version != MagicGo118 && t.version != MagicGo120) {
		return fmt.Errorf("function table is not in order: %w", errBadPclntab)
	}
	if t.version == MagicGo12 {
		var b [4]byte // the offset of the file table follows
		if err := f.Read(b[:], t.file+table+bytes); err != nil {
			return fmt.Errorf("file table: %w", err)
		}
		t.files = uint64(le.Uint32(b[:]))
	}
	return nil
}

// add appends one entry, which is an address in tables before Go 1.18. It
// refuses what is out of order or out of range.
func (t *GoTable) add(entry, info uint64, absolute bool) bool {
	if absolute {
		if len(t.entries) == 0 {
			t.TextStart = entry
		}
		entry -= t.TextStart
	}
	if entry > math.MaxUint32 || info >= t.size {
		return false
	}
	if n := len(t.entries); n > 0 && uint32(entry) < t.entries[n-1].entry {
		return false
	}
	t.entries = append(t.entries, goEntry{uint32(entry), uint32(info)})
	return true
}

// FindPclntab locates the table by its section. If sections were stripped, or a linker (lld) has made the table a part of another one, it
// locates it by its header in the read-only segments.
func FindPclntab(f *File, sections []Section, buf []byte) (off, size uint64, ok bool) {
	if s := f.SectionNamed(sections, ".gopclntab", ".data.rel.ro.gopclntab"); s != nil {
		return s.Off, s.Size, s.Type != elf.SHT_NOBITS
	}
	if len(sections) > 0 {
		if s := f.SectionNamed(sections, ".go.buildinfo"); s == nil || s.Type == elf.SHT_NOBITS {
			return 0, 0, false
		}
	}
	align := uint64(f.Pick(8, 4)) // of the section, by cmd/link
	left := uint64(maxPclntabSearch)
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X != 0 || p.Filesz > maxPclntab {
			continue
		}
		skip := -p.Vaddr % align
		if p.Filesz < skip {
			continue
		}
		search := min(p.Filesz-skip, left)
		left -= search
		err := f.Chunks(buf, p.Off+skip, search, align, func(pos uint64, b []byte) bool {
			for i := 0; i+8 <= len(b); i += int(align) {
				if b[i+1] == 0xff && b[i+3] == 0xff && isPclntab(b[i:i+8]) {
					off, ok = p.Off+skip+pos+uint64(i), true
					size = p.Off + p.Filesz - off
					return false
				}
			}
			return true
		})
		if ok || err != nil {
			return off, size, ok
		}
	}
	return 0, 0, false
}
