// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"fmt"
)

// chunkRows is for how many rows memory is allocated at once while a table grows.
const chunkRows = 16 << 10

var (
	errDense = errors.New("more rows than fit into a page")
	errRules = errors.New("more rules than fit into a table")
)

// packer makes the rows of a table from ranges in ascending order.
type packer struct {
	t     *Table
	limit int // rows
	// Ranges are cut to what lies between from and to.
	from, to uint64
	chunks   [][]uint32
	full     int    // rows in all chunks but the last
	pos      uint64 // where the last range ended
	holds    uint16 // rule that is valid at pos
	page     int    // that is open
	index    map[Rule]uint16
	last     Rule
	lastID   uint16
	dropped  bool // the open page had too many rows
	memory   *memory
}

func newPacker(t *Table, limit int) *packer {
	t.Rules = append(t.Rules, Rule{})
	return &packer{t: t, limit: limit, pos: t.Start, page: -1, index: map[Rule]uint16{{}: 0}}
}

// span adds a range, which must not begin before the last one ended.
func (p *packer) span(from, to uint64, r Rule) {
	if from, to = max(from, p.from), min(to, p.to); from >= to {
		return
	}
	if from > p.pos {
		p.row(p.pos, 0)
	}
	p.row(from, p.rule(r))
	p.pos = to
}

// rule returns the index of a rule.
func (p *packer) rule(r Rule) uint16 {
	if r == p.last {
		return p.lastID
	}
	id, ok := p.index[r]
	if !ok {
		if len(p.t.Rules) == maxRules {
			p.t.skip(fmt.Errorf("%v: %w", r, errRules))
			return 0
		}
		id = uint16(len(p.t.Rules))
		p.t.Rules = append(p.t.Rules, r)
		p.index[r] = id
	}
	p.last, p.lastID = r, id
	return id
}

// row sets the rule from pc on.
func (p *packer) row(pc uint64, id uint16) {
	page := int((pc - p.t.Start) >> pageShift)
	for p.page < page {
		p.turn(pc, page)
	}
	if id != p.holds {
		p.put(uint32(pc&(PageBytes-1)), id)
	}
	p.holds = id
}

// turn opens the pages up to the one of a row at pc.
func (p *packer) turn(pc uint64, page int) {
	p.page++
	p.dropped = false
	p.t.Pages[p.page].First = uint32(p.rows())
	begins := p.page == page && pc&(PageBytes-1) == 0 // with that row itself
	if !begins && (p.holds != 0 || p.page == page) {
		p.put(0, p.holds)
	}
	if begins {
		p.holds = ^uint16(0) // so that the row is not taken for a repetition
	}
}

func (p *packer) put(low uint32, id uint16) {
	page := &p.t.Pages[p.page]
	switch {
	case p.dropped:
		return
	case page.Count == MaxPageRows:
		p.t.skip(fmt.Errorf("page at %#x: %w", p.t.Start+uint64(p.page)<<pageShift, errDense))
		p.drop(page.Count)
		page.Count, p.dropped = 0, true
		return
	}
	if n := len(p.chunks); n == 0 || len(p.chunks[n-1]) == chunkRows {
		if !p.memory.hold(chunkRows * rowBytes) {
			return // the build is stopped
		}
		if n > 0 {
			p.full += chunkRows
		}
		p.chunks = append(p.chunks, make([]uint32, 0, chunkRows))
	}
	last := &p.chunks[len(p.chunks)-1]
	*last = append(*last, low<<16|uint32(id))
	page.Count++
}

// rows is the number of rows.
func (p *packer) rows() int {
	if len(p.chunks) == 0 {
		return 0
	}
	return p.full + len(p.chunks[len(p.chunks)-1])
}

// drop removes the last n rows.
func (p *packer) drop(n uint32) {
	for n > 0 {
		last := &p.chunks[len(p.chunks)-1]
		k := min(int(n), len(*last))
		*last = (*last)[:len(*last)-k]
		n -= uint32(k)
		if len(*last) == 0 && len(p.chunks) > 1 {
			p.chunks = p.chunks[:len(p.chunks)-1]
			p.full -= chunkRows
		}
	}
}

// tooMany reports whether the limit of rows is reached.
func (p *packer) tooMany() bool { return p.rows() > p.limit }

// finish ends the last range and puts the rows into the table.
func (p *packer) finish() {
	if p.pos < p.t.End {
		p.row(p.pos, 0)
	}
	for p.page < len(p.t.Pages)-1 { // those that the last range reaches into
		p.turn(p.t.End, len(p.t.Pages))
	}
	if !p.memory.hold(int64(p.rows()) * rowBytes) {
		return // the build is stopped
	}
	p.t.Rows = make([]uint32, 0, p.rows())
	for _, c := range p.chunks {
		p.t.Rows = append(p.t.Rows, c...)
	}
	p.memory.drop(int64(len(p.chunks)) * chunkRows * rowBytes)
	p.chunks = nil
}
