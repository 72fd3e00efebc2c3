// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// open finds the sources of a binary and the functions in each.
func (b *builder) open(f *elfimage.File, a *arch, debug []elfimage.Image) {
	sections, err := f.Sections()
	if err != nil {
		b.skip(fmt.Errorf("reading the section headers: %w", err))
	}
	s, err := ehFrame(f, sections, a, b.memory)
	b.use(s, SourceEhFrame, err)
	b.useGo(f, sections, a)
	s, err = debugFrame(f, sections, a, b.memory)
	b.use(s, SourceDebugFrame, err)
	for _, img := range debug {
		b.useDebugFile(img, f.Machine, a)
	}
	if len(b.functions) > 0 {
		b.assume(f, sections, a)
	}
}

// use adds a section, which is nil if there is none.
func (b *builder) use(s *section, kind Source, err error) {
	if err != nil {
		b.skip(err)
	}
	if s == nil {
		return
	}
	s.scan(b, b.source(s, kind))
}

// source registers a source, of less precedence than those before.
func (b *builder) source(e emitter, kind Source) source {
	b.sources, b.kinds = append(b.sources, e), append(b.kinds, kind)
	return source(len(b.sources) - 1)
}

func (b *builder) useDebugFile(img elfimage.Image, machine elf.Machine, a *arch) {
	f, err := elfimage.Parse(img)
	if err == nil && f.Machine != machine {
		err = fmt.Errorf("%v: %w", f.Machine, ErrUnsupported)
	}
	var sections []elfimage.Section
	if err == nil {
		sections, err = f.Sections()
	}
	if err != nil {
		b.skip(fmt.Errorf("debug file: %w", err))
		return
	}
	s, err := debugFrame(f, sections, a, b.memory)
	b.use(s, SourceDebugFile, err)
}

func newSection(name string, img elfimage.Image, a *arch, held *memory) *section {
	return &section{name: name, windows: newWindows(img, held), arch: a, cies: make(map[uint64]*cie)}
}

// ehFrame finds .eh_frame by its section, or through PT_GNU_EH_FRAME where
// sections were stripped.
func ehFrame(f *elfimage.File, sections []elfimage.Section, a *arch, held *memory) (*section, error) {
	out := newSection(".eh_frame", f.Image, a, held)
	out.eh = true
	out.data = gotOf(f)
	if s := f.SectionNamed(sections, ".eh_frame"); s != nil {
		if s.Type == elf.SHT_NOBITS { // this is a separate debug file
			return nil, nil //nolint:nilnil // none
		}
		if !f.Has(s.Off, s.Size) {
			return nil, fmt.Errorf(".eh_frame: %w", elfimage.ErrTruncated)
		}
		out.off, out.size, out.addr = s.Off, s.Size, s.Addr
		return out, nil
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		addr, err := ehFrameAddress(f, p)
		if err != nil {
			return nil, fmt.Errorf(".eh_frame_hdr at %#x: %w", p.Vaddr, err)
		}
		if err := out.within(f, addr); err != nil {
			return nil, fmt.Errorf(".eh_frame at %#x: %w", addr, err)
		}
		return out, nil
	}
	return nil, nil //nolint:nilnil // none
}

// ehFrameAddress reads the address of .eh_frame from .eh_frame_hdr, LSB Core
// 5.0, 10.6.1.
func ehFrameAddress(f *elfimage.File, p elfimage.Prog) (uint64, error) {
	var b [12]byte // version, three encodings, the pointer
	n := min(uint64(len(b)), p.Filesz)
	if err := f.Read(b[:n], p.Off); err != nil {
		return 0, err
	}
	c := cursor{b: b[:n]}
	if version := c.u8(); version != 1 {
		return 0, fmt.Errorf("%d: %w", version, errVersion)
	}
	encoding := c.u8()
	c.take(2)
	return c.pointer(encoding, p.Vaddr+4, p.Vaddr)
}

// within takes all of the segment from addr on: without sections the end of .eh_frame is not known, and a terminator ends it.
func (s *section) within(f *elfimage.File, addr uint64) error {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz {
			continue
		}
		skip := addr - p.Vaddr
		if !f.Has(p.Off, p.Filesz) {
			return elfimage.ErrTruncated
		}
		s.off, s.size, s.addr, s.openEnd = p.Off+skip, p.Filesz-skip, addr, true
		return nil
	}
	return errors.New("in no segment")
}

// gotOf returns the base of data-relative pointers, 0 when it is not known.
func gotOf(f *elfimage.File) uint64 {
	d, err := elfimage.ReadDynamic(f)
	if err != nil {
		return 0 // such pointers are refused then, each with its offset
	}
	return d[elf.DT_PLTGOT]
}

// debugFrame finds .debug_frame.
func debugFrame(f *elfimage.File, sections []elfimage.Section, a *arch, held *memory) (*section, error) {
	s := f.SectionNamed(sections, ".debug_frame")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil //nolint:nilnil // none
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		_, size, err := f.Inflate(s)
		if err != nil {
			return nil, fmt.Errorf(".debug_frame: %w", err)
		}
		// While it grows, its former buffer and the next one are held. More than maxInflated is refused below.
		if size <= maxInflated && !held.hold(2*int64(size)) { //nolint:gosec // below maxInflated
			return nil, held.err
		}
	}
	img, err := f.SectionImage(s, maxInflated)
	if err != nil {
		return nil, fmt.Errorf(".debug_frame: %w", err)
	}
	out := newSection(".debug_frame", img, a, held)
	out.size = img.Size
	return out, nil
}

// maxInflated is the most that a compressed .debug_frame may be inflated to,
// in bytes, all of which are in memory while a table is built.
const maxInflated = 64 << 20
