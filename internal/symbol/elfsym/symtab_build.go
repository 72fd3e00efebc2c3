// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"cmp"
	"debug/elf"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Source is a symbol table in the file.
type Source struct {
	off, size, entsize uint64
	strings            elfimage.Span
	dynamic            bool
}

// scanStep is how many bytes of a symbol table are read in one step: some milliseconds of CPU time.
const scanStep = 1 << 20

// Builder makes the table of one binary.
type Builder struct {
	File  *elfimage.File
	Text  []elfimage.Span // executable ranges, sorted
	Buf   []byte          // for reading
	Names elfimage.Reader // through the page cache
	// Reserve reserves memory for the table, or refuses.
	Reserve elfimage.Reserver
	// Pace does a step of the work; nil: without pacing. Its error ends the work.
	Pace  func(step func()) error
	table *Table
}

// paced does a step of the work.
func (b *Builder) paced(step func()) error {
	if b.Pace == nil {
		step()
		return nil
	}
	return b.Pace(step)
}

// begin sorts the ranges of code; false when there are none.
func (b *Builder) begin() bool {
	if len(b.Text) == 0 {
		return false
	}
	slices.SortFunc(b.Text, func(x, y elfimage.Span) int { return cmp.Compare(x.Start, y.Start) })
	b.table = &Table{Base: b.Text[0].Start}
	return true
}

// Build reads the sources and makes the table, nil without any symbols.
func (b *Builder) Build(sources []Source) (*Table, error) {
	if !b.begin() {
		return nil, nil //nolint:nilnil // no code, no table
	}
	count := 0
	if err := b.scanAll(sources, func(Symbol) { count++ }); err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, nil //nolint:nilnil // no symbols, no table
	}
	if err := b.Reserve(count, SymbolBytes); err != nil {
		return nil, err
	}
	all := make([]Symbol, 0, count)
	// The file may grow between the two passes; the table may not.
	err := b.scanAll(sources, func(sym Symbol) {
		if len(all) < count {
			all = append(all, sym)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := b.paced(func() { b.table.entries = b.settled(all, 0) }); err != nil {
		return nil, err
	}
	return b.table, nil
}

// settled turns the symbols of a range of addresses into entries of a table. covered is the end of the furthest sized function that begins
// before the range.
func (b *Builder) settled(all []Symbol, covered uint64) []Symbol {
	slices.SortFunc(all, compareSymbols)
	return b.settleSizes(b.dropAliases(all, covered))
}

// scanAll calls keep for each function of all sources.
func (b *Builder) scanAll(sources []Source, keep func(Symbol)) error {
	for _, s := range sources {
		if s.size > maxSymtab {
			return fmt.Errorf("symbol table of %d bytes: %w", s.size, reason.ErrTooLarge)
		}
		kind := 0
		if s.dynamic {
			kind = 1
		}
		b.table.strings[kind] = s.strings
		if err := b.scan(s, keep); err != nil {
			return err
		}
	}
	return nil
}

// scan calls keep for each function of one source.
func (b *Builder) scan(s Source, keep func(Symbol)) error {
	want := uint64(b.File.Pick(elf.Sym64Size, elf.Sym32Size))
	if s.entsize != want {
		return fmt.Errorf("symbols of %d bytes each, want %d", s.entsize, want)
	}
	var flag uint32
	if s.dynamic {
		flag = dynamicName
	}
	visit := func(_ uint64, chunk []byte) bool {
		for ; len(chunk) > 0; chunk = chunk[want:] {
			if sym, ok := b.decode(chunk, s.strings); ok {
				sym.Name |= flag
				keep(sym)
			}
		}
		return true
	}
	step := scanStep / want * want
	for at := uint64(0); at < s.size; at += step {
		var err error
		stopped := b.paced(func() { err = b.File.Chunks(b.Buf, s.off+at, min(step, s.size-at), want, visit) })
		if err != nil || stopped != nil {
			return fmt.Errorf("symbol table: %w", cmp.Or(err, stopped))
		}
	}
	return nil
}

// decode reads one Elf64_Sym or Elf32_Sym and reports whether it is named code.
func (b *Builder) decode(e []byte, strings elfimage.Span) (Symbol, bool) {
	name := le.Uint32(e)
	var info byte
	var section uint16
	var value, size uint64
	if b.File.Is64 {
		info, section, value, size = e[4], le.Uint16(e[6:]), le.Uint64(e[8:]), le.Uint64(e[16:])
	} else {
		value, size = uint64(le.Uint32(e[4:])), uint64(le.Uint32(e[8:]))
		info, section = e[12], le.Uint16(e[14:])
	}
	rank, ok := rankOf(info, elf.SectionIndex(section))
	if !ok || name == 0 || name >= dynamicName || uint64(name) >= strings.End-strings.Start {
		return Symbol{}, false
	}
	if rank >= rankNoType && b.mappingSymbol(name, strings) {
		return Symbol{}, false
	}
	if b.rangeOf(value) < 0 || value-b.table.Base > math.MaxUint32 {
		return Symbol{}, false
	}
	size = min(size, maxSize) | uint64(rank)<<sizeBits
	return Symbol{Addr: uint32(value - b.table.Base), Size: uint32(size), Name: name}, true
}

// rankOf orders the symbols at one address: functions before labels of assembler code, global before weak before local.
func rankOf(info byte, section elf.SectionIndex) (int, bool) {
	if section == elf.SHN_UNDEF || section == elf.SHN_COMMON || section == elf.SHN_ABS {
		return 0, false
	}
	rank := 2
	switch elf.SymBind(info >> 4) {
	case elf.STB_GLOBAL, 10: // 10 is STB_GNU_UNIQUE
		rank = binderGlobal
	case elf.STB_WEAK:
		rank = 1
	}
	switch elf.SymType(info & 0xf) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		return rank, true
	case elf.STT_NOTYPE:
		return rank + rankNoType, true
	}
	return 0, false
}

// mappingSymbol reports whether a symbol is a mark of arm64 code ($x, $d), which is no name.
func (b *Builder) mappingSymbol(name uint32, strings elfimage.Span) bool {
	if b.File.Machine != elf.EM_AARCH64 && b.File.Machine != elf.EM_ARM {
		return false
	}
	first, err := b.Names.Block(strings.Start + uint64(name))
	return err != nil || first[0] == '$'
}

// rangeOf returns the index of the executable range that contains addr, or -1.
func (b *Builder) rangeOf(addr uint64) int {
	i := sort.Search(len(b.Text), func(i int) bool { return b.Text[i].Start > addr }) - 1
	if i >= 0 && b.Text[i].Contains(addr) {
		return i
	}
	return -1
}

func compareSymbols(x, y Symbol) int {
	if x.Addr != y.Addr {
		return cmp.Compare(x.Addr, y.Addr)
	}
	if px, py := x.preference(), y.preference(); px != py {
		return cmp.Compare(px, py)
	}
	return cmp.Compare(x.Name, y.Name)
}

// preference is lower for the better of two symbols at one address: with a
// size, by rank, from .symtab.
func (s Symbol) preference() uint32 {
	p := s.Size >> sizeBits << 1
	if s.Size&maxSize == 0 {
		p |= 1 << 8
	}
	return p | s.Name>>31
}

// isLabel reports whether a symbol, while its table is built, is a mark in assembler code and no function.
func (s Symbol) isLabel() bool { return s.Size>>sizeBits >= rankNoType && s.Size&maxSize == 0 }

// coversTo is where a sized function ends, 0 for others, while its table is built.
func (s Symbol) coversTo() uint64 {
	if size := s.Size & maxSize; size > 0 && s.Size>>sizeBits < rankNoType {
		return uint64(s.Addr) + uint64(size)
	}
	return 0
}

// dropAliases keeps one symbol for each address, of sorted ones. Among equals the name decides, see BetterName. Labels inside functions
// become rankInside.
func (b *Builder) dropAliases(all []Symbol, covered uint64) []Symbol {
	kept, reads := 0, 0
	for i := 0; i < len(all); {
		best := all[i]
		bestName := ""
		end := i
		inside := uint64(best.Addr) < covered
		for ; end < len(all) && all[end].Addr == best.Addr; end++ {
			covered = max(covered, all[end].coversTo())
			if end == i || all[end].preference() != best.preference() || all[end].Name == best.Name || reads >= maxTieReads {
				continue
			}
			if bestName == "" {
				bestName = b.name(best)
				reads++
			}
			name := b.name(all[end])
			reads++
			if BetterName(name, bestName) {
				best, bestName = all[end], name
			}
		}
		if inside && best.isLabel() {
			best.Size = rankInside << sizeBits
		}
		all[kept] = best
		kept++
		i = end
	}
	return all[:kept]
}

// name reads a name, empty when it cannot be read.
func (b *Builder) name(s Symbol) string {
	off, limit := b.table.NameAt(s.Name)
	text, err := elfimage.ReadText(b.Names, off, int(min(limit, MaxName)))
	if err != nil {
		return ""
	}
	return text
}

// BetterName prefers fewer leading underscores, then the shorter, then the
// lesser name, so that the choice among aliases never depends on their order.
func BetterName(x, y string) bool {
	if x == "" || y == "" {
		return x != ""
	}
	if ux, uy := underscores(x), underscores(y); ux != uy {
		return ux < uy
	}
	if len(x) != len(y) {
		return len(x) < len(y)
	}
	return x < y
}

func underscores(s string) int {
	n := 0
	for n < len(s) && s[n] == '_' {
		n++
	}
	return n
}

// settleSizes removes the ranks, extends symbols without a size up to the next
// symbol or the end of their section, and drops labels inside functions.
func (b *Builder) settleSizes(all []Symbol) []Symbol {
	kept := 0
	for i, s := range all {
		if s.Size>>sizeBits == rankInside {
			continue
		}
		start := uint64(s.Addr)
		if s.Size &= maxSize; s.Size == 0 {
			end := b.Text[b.rangeOf(start+b.table.Base)].End - b.table.Base
			if i+1 < len(all) {
				end = min(end, uint64(all[i+1].Addr))
			}
			s.Size = uint32(min(end-start, math.MaxUint32))
		}
		all[kept] = s
		kept++
	}
	if kept < cap(all)*7/8 {
		return slices.Clone(all[:kept])
	}
	return all[:kept]
}
