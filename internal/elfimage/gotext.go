// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"debug/elf"
	"errors"
)

// Words of runtime.moduledata since Go 1.18: the pointer to the pclntab is the
// first, six slices follow, then findfunctab, minpc, maxpc and text.
const moduleTextWord = 1 + 6*3 + 3

const (
	maxModuleScan = 32 << 20 // bytes searched for runtime.moduledata
	maxRelaScan   = 64 << 20 // bytes of relocations searched
)

var errNoText = errors.New("start of Go's text not found")

// ResolveText finds the address that the function table counts from. Up to Go
// 1.25 the header has it, but for position-independent executables, where a
// relocation supplies it; from then on only runtime.moduledata has it.
func (t *GoTable) ResolveText(f *File, sections []Section, header uint64, buf []byte) error {
	if t.version == MagicGo12 || t.version == MagicGo116 {
		return t.checkText(f, t.TextStart)
	}
	if header != 0 && t.checkText(f, header) == nil {
		return nil
	}
	table, ok := f.AddressOf(t.file)
	if !ok {
		return errNoText
	}
	if t.checkText(f, textByData(f, sections, table, buf)) == nil {
		return nil
	}
	if text, err := textByRelocation(f, table, t.word(), buf); err == nil && t.checkText(f, text) == nil {
		return nil
	}
	// Without C code, Go's text is the whole of .text.
	if s := f.SectionNamed(sections, ".text"); s != nil && t.checkText(f, s.Addr) == nil &&
		s.Size-min(s.Size, uint64(t.entries[len(t.entries)-1].entry)) < 4096 {
		return nil
	}
	return errNoText
}

// checkText accepts a start from which all functions are in one executable segment.
func (t *GoTable) checkText(f *File, start uint64) error {
	last := uint64(t.entries[len(t.entries)-1].entry)
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && start != 0 && start >= p.Vaddr &&
			start-p.Vaddr <= p.Memsz && last <= p.Memsz-(start-p.Vaddr) {
			t.TextStart = start
			return nil
		}
	}
	return errNoText
}

// AddressOf gives the virtual address of a place in the file.
func (f *File) AddressOf(off uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && off >= p.Off && off-p.Off < p.Filesz {
			return off - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// textByData searches the initialised data for runtime.moduledata by its
// pointer to the table at the given address. It gives 0 when the data does
// not tell.
func textByData(f *File, sections []Section, table uint64, buf []byte) (text uint64) {
	word := uint64(f.Pick(8, 4))
	try := func(off uint64) uint64 {
		var b [8]byte
		if f.Read(b[:word], off+moduleTextWord*word) != nil {
			return 0
		}
		return f.Word(b[:])
	}
	if s := f.SectionNamed(sections, ".go.module"); s != nil { // since Go 1.26
		if text = try(s.Off); text != 0 {
			return text
		}
	}
	left := uint64(maxModuleScan)
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_W == 0 {
			continue
		}
		n := min(p.Filesz, left)
		left -= n
		err := f.Chunks(buf, p.Off, n, word, func(pos uint64, b []byte) bool {
			for i := uint64(0); i < uint64(len(b)); i += word {
				if f.Word(b[i:]) == table {
					if text = try(p.Off + pos + i); text != 0 {
						return false
					}
				}
			}
			return true
		})
		if text != 0 || err != nil {
			return text
		}
	}
	return 0
}

// textByRelocation finds runtime.moduledata of a position-independent
// executable by the relocation of its pointer to the table, and the text by
// the relocation of its field.
func textByRelocation(f *File, table, word uint64, buf []byte) (uint64, error) {
	if !f.Is64 {
		return 0, errNoText // REL keeps its addends in the data
	}
	d, err := ReadDynamic(f)
	if err != nil {
		return 0, err
	}
	off, ok := f.OffsetOf(d[elf.DT_RELA])
	if !ok {
		return 0, errNoText
	}
	size := min(d[elf.DT_RELASZ], maxRelaScan)
	modules := make(map[uint64]bool) // addresses of the text fields
	err = f.Chunks(buf, off, size, 24, func(_ uint64, b []byte) bool {
		for ; len(b) > 0; b = b[24:] {
			if le.Uint64(b[16:]) == table && len(modules) < 64 {
				modules[le.Uint64(b)+moduleTextWord*word] = true
			}
		}
		return true
	})
	if err != nil || len(modules) == 0 {
		return 0, errNoText
	}
	var text uint64
	err = f.Chunks(buf, off, size, 24, func(_ uint64, b []byte) bool {
		for ; len(b) > 0 && text == 0; b = b[24:] {
			if modules[le.Uint64(b)] {
				text = le.Uint64(b[16:])
			}
		}
		return text == 0
	})
	return text, err
}
