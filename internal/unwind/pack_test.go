// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	var r Rule
	require.EqualValues(t, 16, unsafe.Sizeof(r))
	require.Equal(t, []uintptr{0, 4, 6, 8, 9, 10, 11, 12, 14}, []uintptr{
		unsafe.Offsetof(r.CFAOffset), unsafe.Offsetof(r.FPOffset), unsafe.Offsetof(r.RAOffset),
		unsafe.Offsetof(r.CFA), unsafe.Offsetof(r.FP), unsafe.Offsetof(r.RA), unsafe.Offsetof(r.Addend),
		unsafe.Offsetof(r.BXOffset), unsafe.Offsetof(r.BX)})
	require.EqualValues(t, 8, unsafe.Sizeof(Page{}))
}

// packed makes a table of pages pages from address base on.
func packed(base uint64, pages int, fill func(p *packer)) *Table {
	table := &Table{Start: base, End: base + uint64(pages)*PageBytes, Pages: make([]Page, pages)}
	p := newPacker(table, math.MaxInt)
	p.from, p.to = 0, math.MaxUint64
	fill(p)
	p.finish()
	return table
}

func sp(off int32) Rule { return Rule{CFA: CFAStackPointer, CFAOffset: off} }

// TestPack covers gaps, pages without a row of their own, neighbours that are
// merged and rows at the borders of pages.
func TestPack(t *testing.T) {
	const base = 0x40000
	table := packed(base, 6, func(p *packer) {
		p.span(base+0x10, base+0x20, sp(8))
		p.span(base+0x20, base+0x30, sp(8)) // merged
		p.span(base+0x30, base+0x40, sp(16))
		p.span(base+0x50, base+3*PageBytes+4, sp(24)) // over two borders
		p.span(base+3*PageBytes+4, base+4*PageBytes, sp(8))
		p.span(base+4*PageBytes, base+4*PageBytes+1, sp(16)) // begins a page
	})
	sound(t, table)
	require.Equal(t, []Page{{0, 5}, {5, 1}, {6, 1}, {7, 2}, {9, 2}, {11, 0}}, table.Pages)
	require.Equal(t, []uint32{
		0, 0x10<<16 | 1, 0x30<<16 | 2, 0x40 << 16, 0x50<<16 | 3,
		3, 3, 3, 4<<16 | 1, 2, 1 << 16,
	}, table.Rows)
	require.Equal(t, []Rule{{}, sp(8), sp(16), sp(24)}, table.Rules)
	for off, want := range map[uint64]Rule{
		0: {}, 0x0f: {}, 0x10: sp(8), 0x2f: sp(8), 0x30: sp(16), 0x3f: sp(16), 0x40: {}, 0x50: sp(24), PageBytes: sp(24), 2*PageBytes + 77: sp(24),
		3*PageBytes + 3: sp(24), 3*PageBytes + 4: sp(8), 4*PageBytes - 1: sp(8), 4 * PageBytes: sp(16), 4*PageBytes + 1: {}, 5 * PageBytes: {}, 6 * PageBytes: {},
	} {
		require.Equal(t, want, table.Lookup(base+off), "%#x", off)
	}
	require.Equal(t, Rule{}, table.Lookup(base-1))
	var seen []uint64
	table.Each(func(pc uint64, _ Rule) bool {
		seen = append(seen, pc-base)
		return len(seen) < 7
	})
	require.Equal(t, []uint64{0, 0x10, 0x30, 0x40, 0x50, PageBytes, 2 * PageBytes}, seen)
	require.EqualValues(t, 6*8+11*4+int(unsafe.Sizeof(*table))+cap(table.Rules)*16, table.Bytes())
}

// TestPackDense checks that a page with too many rows is dropped entirely, and that the next one is not.
func TestPackDense(t *testing.T) {
	fill := func(rows int) func(p *packer) {
		return func(p *packer) {
			p.span(0, PageBytes, sp(8))
			for i := range uint64(rows) {
				p.span(PageBytes+i, PageBytes+i+1, sp(int32(i%2)*8+8))
			}
			p.span(PageBytes+uint64(rows), 3*PageBytes, sp(32))
		}
	}
	table := packed(0, 3, fill(MaxPageRows-1))
	sound(t, table)
	require.NoError(t, table.Err)
	require.EqualValues(t, MaxPageRows, table.Pages[1].Count)
	table = packed(0, 3, fill(MaxPageRows))
	sound(t, table)
	require.Equal(t, 1, table.Skipped)
	require.ErrorIs(t, table.Err, errDense)
	require.ErrorContains(t, table.Err, "page at 0x400")
	require.Equal(t, []Page{{0, 1}, {1, 0}, {1, 1}}, table.Pages)
	require.Equal(t, sp(8), table.Lookup(5))
	require.Equal(t, Rule{}, table.Lookup(PageBytes+5))
	require.Equal(t, sp(32), table.Lookup(2*PageBytes+5))
	table = packed(0, 3, fill(900))
	sound(t, table)
	require.Equal(t, 1, table.Skipped, "counted once")
}

// TestPackRules checks that rules beyond the range of an index are unknown.
func TestPackRules(t *testing.T) {
	table := packed(0, (maxRules+5)*16/PageBytes+1, func(p *packer) {
		for i := range uint64(maxRules + 5) {
			p.span(i*16, i*16+16, sp(int32(i)))
		}
	})
	sound(t, table)
	require.Len(t, table.Rules, maxRules)
	require.Equal(t, 6, table.Skipped)
	require.ErrorIs(t, table.Err, errRules)
	require.Equal(t, sp(maxRules-2), table.Lookup((maxRules-2)*16))
	require.Equal(t, Rule{}, table.Lookup((maxRules-1)*16))
}
