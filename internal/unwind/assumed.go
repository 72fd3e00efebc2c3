// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// entryBytes bounds the code at the entry point that has no entry of its own: that of glibc's loader has some 60 bytes.
const entryBytes = 256

var errStubs = errors.New("more bytes of stubs than are read")

// assumed yields rules for code that no format describes and whose shape is known: the entry point, the stubs of the procedure linkage table,
// and the C library's _init and _fini.
type assumed struct{ functions [][]ruleRange }

// ruleRange is a range of addresses with one rule.
type ruleRange struct {
	start, end uint64
	rule       Rule
}

// assume adds such code. It must be called after the sources that were read, whose functions have precedence.
func (b *builder) assume(f *elfimage.File, sections []elfimage.Section, a *arch) {
	s := &assumed{}
	from := b.source(s, SourceAssumed)
	if startsProgram(f) && !b.knows(f.Entry) {
		s.add(b, from, []ruleRange{{f.Entry, f.Entry + entryBytes, Rule{CFA: CFAEnd}}})
	}
	for _, name := range []string{".plt", ".plt.got", ".plt.sec", ".iplt", ".init", ".fini"} {
		p := f.SectionNamed(sections, name)
		if p == nil || p.Type != elf.SHT_PROGBITS || p.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		code, err := readStubs(f, p)
		if err != nil {
			b.skip(fmt.Errorf("%s: %w", name, err))
			continue
		}
		s.add(b, from, a.stubs(code, p.Addr))
	}
	b.assumeFinish(s, from, f, sections, a)
}

// finishBytes is the most that is read of the function which a binary calls first at its end: that of GCC's crtstuff.c has some 60 bytes.
const finishBytes = 64

// assumeFinish adds the function that a binary calls first at its end. If it is GCC's __do_global_dtors_aux, no format describes it, and
// short-lived processes are often sampled there: it is the first to write to a page, which the kernel then copies for them.
func (b *builder) assumeFinish(s *assumed, from source, f *elfimage.File, sections []elfimage.Section, a *arch) {
	list := f.SectionNamed(sections, ".fini_array")
	if list == nil || list.Type != elf.SHT_FINI_ARRAY || list.Size < 8 || !f.Has(list.Off, 8) {
		return
	}
	var word [8]byte
	if err := f.Read(word[:], list.Off); err != nil {
		b.skip(fmt.Errorf(".fini_array: %w", err))
		return
	}
	at := f.Word(word[:]) // linkers write it next to its relocation
	off, ok := f.OffsetOf(at)
	if !ok || b.knows(at) || !b.inText(at) || !f.Has(off, finishBytes) {
		return
	}
	code := make([]byte, finishBytes)
	if err := f.Read(code, off); err != nil {
		b.skip(fmt.Errorf("the first function of .fini_array: %w", err))
		return
	}
	s.add(b, from, a.finish(code, at))
}

func (b *builder) inText(addr uint64) bool {
	for _, s := range b.text {
		if s.Contains(addr) {
			return true
		}
	}
	return false
}

// knows reports whether a source has a function that contains an address.
func (b *builder) knows(addr uint64) bool {
	for _, f := range b.functions {
		if start := b.table.Start + uint64(f.start); addr >= start && addr-start < uint64(f.size) {
			return true
		}
	}
	return false
}

func (s *assumed) add(b *builder, from source, ranges []ruleRange) {
	if len(ranges) == 0 {
		return
	}
	b.add(ranges[0].start, ranges[len(ranges)-1].end, uint32(len(s.functions)), from)
	s.functions = append(s.functions, ranges)
}

// emit yields the assumed rules.
func (s *assumed) emit(ref uint32, p *packer) error {
	for _, one := range s.functions[ref] {
		p.span(one.start, one.end, one.rule)
	}
	return nil
}

// startsProgram reports whether the entry point is where a thread begins: in programs and in the loader. In libraries it is arbitrary.
func startsProgram(f *elfimage.File) bool {
	if f.Entry == 0 {
		return false
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	dynamic, err := elfimage.ReadDynamic(f)
	if err != nil {
		return false
	}
	_, needs := dynamic[elf.DT_NEEDED]
	return !needs
}

func readStubs(f *elfimage.File, p *elfimage.Section) ([]byte, error) {
	if p.Size > maxRecord {
		return nil, fmt.Errorf("%d: %w", p.Size, errStubs)
	}
	if !f.Has(p.Off, p.Size) {
		return nil, elfimage.ErrTruncated
	}
	code := make([]byte, p.Size)
	return code, f.Read(code, p.Off)
}
