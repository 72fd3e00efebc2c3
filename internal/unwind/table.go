// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"sort"
	"strings"
	"unsafe"
)

const (
	// PageBytes is how much code a [Page] covers: small enough that a
	// search in it touches a line or two of memory.
	PageBytes = 1 << pageShift
	pageShift = 10
	// MaxPageRows is the most rows that a page has; the search in BPF takes 8
	// steps.
	MaxPageRows = 1<<8 - 1
	// maxRules is the most rules of a table, the zero rule included. A compiler of 100 MB, which has more than most, has some 1,100.
	maxRules = 1 << 12
)

// Table holds the rules of one binary.
type Table struct {
	// Start and End bound the code that is covered, as virtual addresses of the
	// file (p_vaddr). Start is a multiple of PageBytes.
	Start, End uint64
	// Pages is indexed by (address - Start) / PageBytes.
	Pages []Page
	// Rows are the rows of all pages: the low 10 bits of the address from which on a rule is valid, << 16, | the index of the rule in Rules.
	// They ascend within a page, and the first of a page is at its beginning.
	Rows []uint32
	// Rules are the rules in use; the first is the zero Rule.
	Rules []Rule
	// Sources are the sources of the rules.
	Sources Source
	// Functions is how many functions or parts of functions were read, Covered the
	// bytes of their code, and Code those of all segments of code.
	Functions     int
	Covered, Code uint64
	// Skipped counts what was left out: contradictory entries, pages of more than MaxPageRows rows, rules beyond 4,095.
	Skipped int
	// Err is why the first of them was left out.
	Err error
}

// Page is a range of Table.Rows: those of PageBytes of code. Code of a page without rows is unknown.
type Page struct{ First, Count uint32 }

// Source is a set of formats.
type Source uint8

// Formats that rules are read from.
const (
	SourceEhFrame    Source = 1 << iota // .eh_frame
	SourceGo                            // pclntab
	SourceDebugFrame                    // .debug_frame
	SourceDebugFile                     // .debug_frame of a separate debug file
	SourceAssumed                       // none: known shapes of the entry point and of stubs of the PLT
)

// String lists the formats of a set.
func (s Source) String() string {
	var out []string
	for i, name := range []string{"eh_frame", "gopclntab", "debug_frame", "debug file", "assumed"} {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, "+")
}

// Bytes is the memory of the table.
func (t *Table) Bytes() int64 {
	return int64(len(t.Pages))*int64(unsafe.Sizeof(Page{})) + int64(cap(t.Rows))*4 +
		int64(cap(t.Rules))*int64(unsafe.Sizeof(Rule{})) + int64(unsafe.Sizeof(*t))
}

// Sparse reports whether most of the code has no rules. In a program that was built without unwind tables, the start-up code of the C library
// may be all that has some.
func (t *Table) Sparse() bool { return t.Covered < t.Code/2 }

// Lookup returns the rule for an address, the zero Rule if none is known. It searches as the BPF program does.
func (t *Table) Lookup(pc uint64) Rule {
	if pc < t.Start || pc >= t.End {
		return Rule{}
	}
	p := t.Pages[(pc-t.Start)>>pageShift]
	rows := t.Rows[p.First:][:p.Count]
	low := uint32(pc & (PageBytes - 1))
	i := sort.Search(len(rows), func(i int) bool { return rows[i]>>16 > low })
	if i == 0 {
		return Rule{}
	}
	return t.Rules[rows[i-1]&0xffff]
}

// Each calls visit with the rows in the order of their addresses, until it returns false. Rows that only repeat the rule of the previous page
// are among them.
func (t *Table) Each(visit func(pc uint64, r Rule) bool) {
	for i, p := range t.Pages {
		for _, row := range t.Rows[p.First:][:p.Count] {
			if !visit(t.Start+uint64(i)<<pageShift+uint64(row>>16), t.Rules[row&0xffff]) {
				return
			}
		}
	}
}
