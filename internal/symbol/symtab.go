// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// symbol is one function of a table, 12 bytes. While a table is built the
// upper bits of size hold the rank.
type symbol struct {
	addr uint32 // from the table's base
	size uint32
	name uint32 // offset in the string table; the top bit chooses the dynamic one
}

const (
	symbolBytes  = 12
	maxSymtab    = 1 << 28 // bytes of a symbol table in the file, 11 million symbols
	dynamicName  = 1 << 31
	sizeBits     = 29
	maxSize      = 1<<sizeBits - 1
	rankNoType   = 3
	maxNesting   = 16      // symbols looked back over for one that encloses an address
	maxTieReads  = 1 << 18 // names read to choose among aliases of one table
	binderGlobal = 0
)

var errTooLarge = errors.New("exceeds the memory bound")

// symTable holds the functions of one binary, sorted by address.
type symTable struct {
	base    uint64
	entries []symbol
	strings [2]elfimage.Span // where the names are in the file: of .symtab, of .dynsym
}

func (t *symTable) bytes() int64 { return int64(cap(t.entries)) * symbolBytes }

// find gives the symbol that covers addr.
func (t *symTable) find(addr uint64) *symbol {
	if addr < t.base || addr-t.base > math.MaxUint32 {
		return nil
	}
	rel := uint32(addr - t.base)
	i := sort.Search(len(t.entries), func(i int) bool { return t.entries[i].addr > rel }) - 1
	for stop := max(i-maxNesting, -1); i > stop; i-- {
		if e := &t.entries[i]; rel-e.addr < e.size {
			return e
		}
	}
	return nil
}

// findReturn gives the symbol of a return address less one. It covers that, but for what the kernel has made a signal handler return to:
// nobody has called it, so it is returned to where it begins.
func (t *symTable) findReturn(addr uint64) *symbol {
	if sym := t.find(addr); sym != nil {
		return sym
	}
	if sym := t.find(addr + 1); sym != nil && t.base+uint64(sym.addr) == addr+1 {
		return sym
	}
	return nil
}

// nameAt gives where in the file the name is and how long it can be.
func (t *symTable) nameAt(name uint32) (off, limit uint64) {
	s := t.strings[name>>31]
	rel := uint64(name &^ dynamicName)
	if rel >= s.End-s.Start {
		return 0, 0
	}
	return s.Start + rel, s.End - s.Start - rel
}

// symSource is a symbol table in the file.
type symSource struct {
	off, size, entsize uint64
	strings            elfimage.Span
	dynamic            bool
}

// builder makes the table of one binary.
type builder struct {
	f     *elfimage.File
	text  []elfimage.Span // executable ranges, sorted
	buf   []byte          // for reading
	names elfimage.Reader // through the page cache
	// reserve makes room in memory for the table, or refuses.
	reserve elfimage.Reserver
	table   *symTable
}

// build reads the sources and makes the table, nil without any symbols.
func (b *builder) build(sources []symSource) (*symTable, error) {
	if len(b.text) == 0 {
		return nil, nil //nolint:nilnil // no code, no table
	}
	slices.SortFunc(b.text, func(x, y elfimage.Span) int { return cmp.Compare(x.Start, y.Start) })
	b.table = &symTable{base: b.text[0].Start}
	count := 0
	for _, s := range sources {
		if s.size > maxSymtab {
			return nil, fmt.Errorf("symbol table of %d bytes: %w", s.size, errTooLarge)
		}
		if err := b.scan(s, func(symbol) { count++ }); err != nil {
			return nil, err
		}
	}
	if count == 0 {
		return nil, nil //nolint:nilnil // no symbols, no table
	}
	if err := b.reserve(count, symbolBytes); err != nil {
		return nil, err
	}
	b.table.entries = make([]symbol, 0, count)
	for _, s := range sources {
		kind := 0
		if s.dynamic {
			kind = 1
		}
		b.table.strings[kind] = s.strings
		// The file may grow between the two passes; the table may not.
		err := b.scan(s, func(sym symbol) {
			if len(b.table.entries) < count {
				b.table.entries = append(b.table.entries, sym)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(b.table.entries, compareSymbols)
	b.dropAliases()
	b.settleSizes()
	return b.table, nil
}

// scan calls keep for each function of one source.
func (b *builder) scan(s symSource, keep func(symbol)) error {
	want := uint64(b.f.Pick(elf.Sym64Size, elf.Sym32Size))
	if s.entsize != want {
		return fmt.Errorf("symbols of %d bytes each, want %d", s.entsize, want)
	}
	var flag uint32
	if s.dynamic {
		flag = dynamicName
	}
	err := b.f.Chunks(b.buf, s.off, s.size, want, func(_ uint64, chunk []byte) bool {
		for ; len(chunk) > 0; chunk = chunk[want:] {
			if sym, ok := b.decode(chunk, s.strings); ok {
				sym.name |= flag
				keep(sym)
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("symbol table: %w", err)
	}
	return nil
}

// decode reads one Elf64_Sym or Elf32_Sym and tells whether it is a named
// piece of code.
func (b *builder) decode(e []byte, strings elfimage.Span) (symbol, bool) {
	name := le.Uint32(e)
	var info byte
	var section uint16
	var value, size uint64
	if b.f.Is64 {
		info, section, value, size = e[4], le.Uint16(e[6:]), le.Uint64(e[8:]), le.Uint64(e[16:])
	} else {
		value, size = uint64(le.Uint32(e[4:])), uint64(le.Uint32(e[8:]))
		info, section = e[12], le.Uint16(e[14:])
	}
	rank, ok := rankOf(info, elf.SectionIndex(section))
	if !ok || name == 0 || name >= dynamicName || uint64(name) >= strings.End-strings.Start {
		return symbol{}, false
	}
	if rank >= rankNoType && b.mappingSymbol(name, strings) {
		return symbol{}, false
	}
	if b.rangeOf(value) < 0 || value-b.table.base > math.MaxUint32 {
		return symbol{}, false
	}
	size = min(size, maxSize) | uint64(rank)<<sizeBits
	return symbol{addr: uint32(value - b.table.base), size: uint32(size), name: name}, true
}

// rankOf orders the symbols at one address: functions before labels of
// assembler code, global before weak before local.
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

// mappingSymbol tells the marks of arm64 code ($x, $d), which are no names.
func (b *builder) mappingSymbol(name uint32, strings elfimage.Span) bool {
	if b.f.Machine != elf.EM_AARCH64 && b.f.Machine != elf.EM_ARM {
		return false
	}
	first, err := b.names.Block(strings.Start + uint64(name))
	return err != nil || first[0] == '$'
}

// rangeOf gives the index of the executable range that holds addr, or -1.
func (b *builder) rangeOf(addr uint64) int {
	i := sort.Search(len(b.text), func(i int) bool { return b.text[i].Start > addr }) - 1
	if i >= 0 && b.text[i].Contains(addr) {
		return i
	}
	return -1
}

func compareSymbols(x, y symbol) int {
	if x.addr != y.addr {
		return cmp.Compare(x.addr, y.addr)
	}
	if px, py := x.preference(), y.preference(); px != py {
		return cmp.Compare(px, py)
	}
	return cmp.Compare(x.name, y.name)
}

// preference is lower for the better of two symbols at one address: with a
// size, by rank, from .symtab.
func (s symbol) preference() uint32 {
	p := s.size >> sizeBits << 1
	if s.size&maxSize == 0 {
		p |= 1 << 8
	}
	return p | s.name>>31
}

// dropAliases keeps one symbol for each address. Among equals the name
// decides, see betterName.
func (b *builder) dropAliases() {
	all := b.table.entries
	kept, reads := 0, 0
	for i := 0; i < len(all); {
		best := all[i]
		bestName := ""
		end := i + 1
		for ; end < len(all) && all[end].addr == best.addr; end++ {
			if all[end].preference() != best.preference() || all[end].name == best.name || reads >= maxTieReads {
				continue
			}
			if bestName == "" {
				bestName = b.name(best)
				reads++
			}
			name := b.name(all[end])
			reads++
			if betterName(name, bestName) {
				best, bestName = all[end], name
			}
		}
		all[kept] = best
		kept++
		i = end
	}
	b.table.entries = all[:kept]
}

// name reads a name, empty when it cannot be read.
func (b *builder) name(s symbol) string {
	off, limit := b.table.nameAt(s.name)
	text, err := elfimage.ReadText(b.names, off, int(min(limit, maxName)))
	if err != nil {
		return ""
	}
	return text
}

// betterName prefers fewer leading underscores, then the shorter, then the
// lesser name, so that the choice among aliases never depends on their order.
func betterName(x, y string) bool {
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
func (b *builder) settleSizes() {
	all := b.table.entries
	kept := 0
	var covered uint64 // end of the furthest sized function so far
	for i, s := range all {
		rank := s.size >> sizeBits
		s.size &= maxSize
		start := uint64(s.addr)
		if s.size == 0 {
			if rank >= rankNoType && start < covered {
				continue
			}
			end := b.text[b.rangeOf(start+b.table.base)].End - b.table.base
			if i+1 < len(all) {
				end = min(end, uint64(all[i+1].addr))
			}
			s.size = uint32(min(end-start, math.MaxUint32))
		} else if rank < rankNoType {
			covered = max(covered, start+uint64(s.size))
		}
		all[kept] = s
		kept++
	}
	b.table.entries = all[:kept]
	if kept < cap(all)*7/8 {
		b.table.entries = slices.Clone(all[:kept])
	}
}
