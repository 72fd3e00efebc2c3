// SPDX-License-Identifier: Apache-2.0

// Package elfsym reads the tables of ELF files that name addresses: symbol tables, whole or of the requested addresses alone, and Go's
// pclntab; their build ids; and how names are read and demangled. It holds no files and takes no locks: a file is an [elfimage.Image], and
// what a table may take is reserved by the caller.
package elfsym

import (
	"math"
	"sort"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// Symbol is one function of a table, 12 bytes. While a table is built the
// upper bits of size hold the rank.
type Symbol struct {
	Addr uint32 // from the table's base
	Size uint32
	Name uint32 // offset in the string table; the top bit chooses the dynamic one
}

const (
	SymbolBytes  = 12
	maxSymtab    = 1 << 28 // bytes of a symbol table in the file, 11 million symbols
	dynamicName  = 1 << 31
	sizeBits     = 29
	maxSize      = 1<<sizeBits - 1
	rankNoType   = 3
	rankInside   = 7       // a label inside a function
	maxNesting   = 16      // symbols looked back over for one that encloses an address
	maxTieReads  = 1 << 18 // names read to choose among aliases of one table
	binderGlobal = 0
)

// Table holds the functions of one binary, sorted by address: all of them, or, if those do not fit into memory, what is known of the
// addresses that were requested.
type Table struct {
	Base    uint64
	entries []Symbol
	strings [2]elfimage.Span // where the names are in the file: of .symtab, of .dynsym

	IsPartial bool
	answers   []answerRange // of a partial table, sorted by address; none overlaps another
}

// answerRange is a range of addresses from the table's base, lo to hi, in which one symbol is the answer everywhere; its size is 0 if none
// covers them.
type answerRange struct {
	lo, hi uint32
	sym    Symbol
}

const answerBytes = int64(unsafe.Sizeof(answerRange{}))

func (t *Table) Bytes() int64 {
	return int64(cap(t.entries))*SymbolBytes + int64(cap(t.answers))*answerBytes
}

// TableOf makes a table of symbols that are sorted by address.
func TableOf(base uint64, entries []Symbol) *Table { return &Table{Base: base, entries: entries} }

// Entries are the functions of a complete table, sorted by address.
func (t *Table) Entries() []Symbol { return t.entries }

// Find returns the symbol that covers addr.
func (t *Table) Find(addr uint64) *Symbol {
	sym, _ := t.lookup(addr)
	return sym
}

// lookup returns the symbol that covers addr, if any; known is false if a partial table does not have the answer.
func (t *Table) lookup(addr uint64) (sym *Symbol, known bool) {
	if addr < t.Base || addr-t.Base > math.MaxUint32 {
		return nil, true
	}
	rel := uint32(addr - t.Base)
	if t.IsPartial {
		return t.lookPieces(rel)
	}
	if i := covering(t.entries, rel); i >= 0 {
		return &t.entries[i], true
	}
	return nil, true
}

// covering returns the index of the innermost of sorted symbols that covers an address, or -1.
func covering(entries []Symbol, rel uint32) int {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Addr > rel }) - 1
	for stop := max(i-maxNesting, -1); i > stop; i-- {
		if e := &entries[i]; rel-e.Addr < e.Size {
			return i
		}
	}
	return -1
}

func (t *Table) lookPieces(rel uint32) (*Symbol, bool) {
	i := sort.Search(len(t.answers), func(i int) bool { return t.answers[i].hi > rel })
	if i == len(t.answers) || t.answers[i].lo > rel {
		return nil, false
	}
	if sym := &t.answers[i].sym; sym.Size > 0 {
		return sym, true
	}
	return nil, true
}

// FindReturn returns the symbol of a return address less one, with one exception: a signal handler returns to where the kernel has set its
// return address, at the beginning of a function without a call before it.
func (t *Table) FindReturn(addr uint64) *Symbol {
	sym, _ := t.LookupReturn(addr)
	return sym
}

// LookupReturn is FindReturn; known is false if a partial table does not have the answer.
func (t *Table) LookupReturn(addr uint64) (sym *Symbol, known bool) {
	if sym, known = t.lookup(addr); sym != nil || !known {
		return sym, known
	}
	if sym, known = t.lookup(addr + 1); sym != nil && t.Base+uint64(sym.Addr) == addr+1 {
		return sym, known
	}
	return nil, known
}

// NameAt returns where in the file the name is and its maximum length.
func (t *Table) NameAt(name uint32) (off, limit uint64) {
	s := t.strings[name>>31]
	rel := uint64(name &^ dynamicName)
	if rel >= s.End-s.Start {
		return 0, 0
	}
	return s.Start + rel, s.End - s.Start - rel
}
