// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// maxWindowSymbols bounds the symbols that are held during a pass over a file.
const maxWindowSymbols = 1 << 17

// before is what a pass finds out about the symbols that begin after the previous wanted address and up to one address.
type before struct {
	starts     [maxNesting]uint32 // of the last ones that are no labels, sorted; number of them are set
	number     int
	label      uint32 // the last label
	first      uint32 // the first of all
	labels, is bool   // whether there are labels, and any
}

func (b *before) add(s Symbol) {
	if !b.is || s.Addr < b.first {
		b.first, b.is = s.Addr, true
	}
	if s.isLabel() {
		b.label, b.labels = max(b.label, s.Addr), true
		return
	}
	b.start(s.Addr)
}

// start records where a symbol begins, if it is among the last ones.
func (b *before) start(addr uint32) {
	i, known := slices.BinarySearch(b.starts[:b.number], addr)
	switch {
	case known:
	case b.number < maxNesting:
		copy(b.starts[i+1:b.number+1], b.starts[i:b.number])
		b.starts[i] = addr
		b.number++
	case i > 0:
		copy(b.starts[:i-1], b.starts[1:i])
		b.starts[i-1] = addr
	}
}

// inherit adds what was found up to the previous address.
func (b *before) inherit(o *before) {
	for _, addr := range o.starts[:o.number] {
		b.start(addr)
	}
	if o.labels {
		b.label, b.labels = max(b.label, o.label), true
	}
}

// from returns where the symbols begin that decide about the address, false if none do.
func (b *before) from() (uint32, bool) {
	switch {
	case b.number > 0 && b.labels:
		return min(b.starts[0], b.label), true
	case b.number > 0:
		return b.starts[0], true
	}
	return b.label, b.labels
}

// window is a range of addresses of which all symbols are needed, both ends included.
type window struct {
	from, to uint32
	covered  uint64 // the end of the furthest sized function that begins before it
	symbols  []Symbol
}

// Partial answers addresses of a binary by two passes over its sources, which hold only the symbols near those addresses. The table that it
// returns has the same answers as the complete one would.
func (b *Builder) Partial(sources []Source, addrs []uint64) (*Table, error) {
	if !b.begin() {
		return nil, nil //nolint:nilnil // no code, no table
	}
	b.table.IsPartial = true
	wanted := b.relative(addrs)
	if len(wanted) == 0 {
		return b.table, nil
	}
	near := make([]before, len(wanted)+1) // the last one is for what follows them all
	at := 0
	err := b.scanAll(sources, func(s Symbol) {
		if !(s.Addr <= at32(wanted, at) && (at == 0 || s.Addr > wanted[at-1])) {
			at = sort.Search(len(wanted), func(i int) bool { return wanted[i] >= s.Addr })
		}
		near[at].add(s)
	})
	if err != nil {
		return nil, err
	}
	windows := windowsOf(near)
	if err := b.fill(sources, windows); err != nil {
		return nil, err
	}
	err = b.paced(func() {
		for i := range windows {
			w := &windows[i]
			w.symbols = b.settled(w.symbols, w.covered)
		}
		b.answer(wanted, windows)
	})
	return b.table, err
}

// at32 is the i-th address, or more than any if there is none.
func at32(wanted []uint32, i int) uint32 {
	if i < len(wanted) {
		return wanted[i]
	}
	return math.MaxUint32
}

// relative sorts addresses, and those after them, which a return address needs, relative to the table's base.
func (b *Builder) relative(addrs []uint64) []uint32 {
	wanted := make([]uint32, 0, 2*len(addrs))
	for _, addr := range addrs {
		for _, a := range [2]uint64{addr, addr + 1} {
			if a >= b.table.Base && a-b.table.Base < math.MaxUint32 {
				wanted = append(wanted, uint32(a-b.table.Base))
			}
		}
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// windowsOf makes the windows of the wanted addresses: each from the symbols before that decide, to the first one after.
func windowsOf(near []before) []window {
	for i := 1; i < len(near); i++ {
		near[i].inherit(&near[i-1])
	}
	var windows []window
	next := uint32(math.MaxUint32)
	for i := len(near) - 2; i >= 0; i-- {
		if near[i+1].is {
			next = near[i+1].first
		}
		from, ok := near[i].from()
		if !ok {
			break // nothing begins before this one, or those before it
		}
		if n := len(windows); n > 0 && windows[n-1].from <= next {
			windows[n-1].from = min(windows[n-1].from, from)
		} else {
			windows = append(windows, window{from: from, to: next})
		}
	}
	slices.Reverse(windows)
	return windows
}

// fill reads the symbols of windows.
func (b *Builder) fill(sources []Source, windows []window) error {
	if len(windows) == 0 {
		return nil
	}
	held, at := 0, 0
	ends := make([]uint64, len(windows)+1) // the furthest end of functions that begin before a window and after the start of the previous one
	err := b.scanAll(sources, func(s Symbol) {
		if !(s.Addr <= windows[min(at, len(windows)-1)].to && (at == 0 || s.Addr > windows[at-1].to)) {
			at = sort.Search(len(windows), func(i int) bool { return windows[i].to >= s.Addr })
		}
		if at == len(windows) {
			return
		}
		if s.Addr < windows[at].from {
			ends[at] = max(ends[at], s.coversTo())
			return
		}
		ends[at+1] = max(ends[at+1], s.coversTo())
		if held < maxWindowSymbols {
			windows[at].symbols = append(windows[at].symbols, s)
			held++
		}
	})
	if err != nil {
		return err
	}
	if held == maxWindowSymbols {
		return fmt.Errorf("more than %d symbols near the addresses asked for: %w", held, reason.ErrTooLarge)
	}
	for i := range windows {
		if i > 0 {
			ends[i] = max(ends[i], ends[i-1])
		}
		windows[i].covered = ends[i]
	}
	return nil
}

// answer makes the ranges that contain the wanted addresses.
func (b *Builder) answer(wanted []uint32, windows []window) {
	t := b.table
	for _, rel := range wanted {
		if n := len(t.answers); n > 0 && t.answers[n-1].hi > rel {
			continue // the previous range contains it, too
		}
		w := sort.Search(len(windows), func(i int) bool { return windows[i].to >= rel })
		p := answerRange{lo: rel, hi: rel + 1}
		if w < len(windows) && windows[w].from <= rel {
			p = answerAt(windows[w].symbols, rel)
		}
		if n := len(t.answers); n > 0 {
			p.lo = max(p.lo, t.answers[n-1].hi)
		}
		t.answers = append(t.answers, p)
	}
}

// answerAt returns the answer of a window's symbols for an address, and its range.
func answerAt(symbols []Symbol, rel uint32) answerRange {
	p := answerRange{lo: rel, hi: rel + 1}
	last := sort.Search(len(symbols), func(i int) bool { return symbols[i].Addr > rel }) - 1
	if last < 0 {
		return p
	}
	lo, hi := symbols[last].Addr, uint32(math.MaxUint32)
	if last+1 < len(symbols) {
		hi = symbols[last+1].Addr
	} else {
		hi = rel + 1 // the next one is not known
	}
	found := covering(symbols, rel)
	for i := last; i > max(found, last-maxNesting, -1); i-- {
		lo = max(lo, symbols[i].Addr+symbols[i].Size) // it ends before the address
	}
	if found >= 0 {
		p.sym = symbols[found]
		if end := uint64(p.sym.Addr) + uint64(p.sym.Size); uint64(hi) > end {
			hi = uint32(end)
		}
	}
	p.lo, p.hi = lo, max(hi, rel+1)
	return p
}

// Merge adds the ranges of another partial table of the same binary.
func (t *Table) Merge(o *Table) {
	all := make([]answerRange, 0, len(t.answers)+len(o.answers))
	all = append(append(all, t.answers...), o.answers...)
	slices.SortFunc(all, func(x, y answerRange) int { return cmp.Compare(x.lo, y.lo) })
	kept := all[:0]
	for _, p := range all {
		if n := len(kept); n > 0 && p.lo < kept[n-1].hi {
			if p.hi <= kept[n-1].hi {
				continue
			}
			p.lo = kept[n-1].hi // both have the same answers where they overlap
		}
		kept = append(kept, p)
	}
	t.answers = slices.Clone(kept)
}
