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

// ResolveText finds the address that the function table counts from. Up to Go 1.25 the header has it, except in position-independent
// executables, where a relocation supplies it; from then on only runtime.moduledata has it.
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
	if t.checkText(f, wordByData(f, sections, table, 0, moduleTextWord, buf)) == nil {
		return nil
	}
	if text, err := wordByRelocation(f, table, t.word(), moduleTextWord, buf); err == nil && t.checkText(f, text) == nil {
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

// AddressOf returns the virtual address of an offset in the file.
func (f *File) AddressOf(off uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && off >= p.Off && off-p.Off < p.Filesz {
			return off - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// wordByRelocation finds runtime.moduledata of a position-independent
// executable by the relocation of its pointer to the table, and one of its
// words, an address, by the relocation of that.
func wordByRelocation(f *File, table, word, index uint64, buf []byte) (uint64, error) {
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
	modules := make(map[uint64]bool) // addresses of the word
	err = f.Chunks(buf, off, size, 24, func(_ uint64, b []byte) bool {
		for ; len(b) > 0; b = b[24:] {
			if le.Uint64(b[16:]) == table && len(modules) < 64 {
				modules[le.Uint64(b)+index*word] = true
			}
		}
		return true
	})
	if err != nil || len(modules) == 0 {
		return 0, errNoText
	}
	var found uint64
	err = f.Chunks(buf, off, size, 24, func(_ uint64, b []byte) bool {
		for ; len(b) > 0 && found == 0; b = b[24:] {
			if modules[le.Uint64(b)] {
				found = le.Uint64(b[16:])
			}
		}
		return found == 0
	})
	return found, err
}
