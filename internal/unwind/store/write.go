// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// write copies a table into chunks. b must free what was copied before an error.
func (s *Store) write(b *Binary, table *unwind.Table) error {
	rules, err := s.translate(b, table.Rules)
	if err != nil {
		return err
	}
	directory := make([]byte, 0, min(len(table.Pages), segmentPages)*pageBytes)
	for first := 0; first < len(table.Pages); first += segmentPages {
		pages := table.Pages[first:min(first+segmentPages, len(table.Pages))]
		directory = directory[:0]
		if directory, err = s.writeRows(b, directory, pages, table.Rows, rules); err != nil {
			return err
		}
		e, err := s.alloc(uint32(len(directory)))
		if err != nil {
			return err
		}
		copy(s.heap.at(e), directory)
		start := table.Start + uint64(first)*pageSize
		b.segments = append(b.segments, segment{start: start, end: start + uint64(len(pages))*pageSize, directory: e})
	}
	return nil
}

// writeRows copies the rows of pages, as many pages to an extent as fit a chunk,
// and appends the pages' entries to directory (struct unwind_page).
func (s *Store) writeRows(b *Binary, directory []byte, pages []unwind.Page, rows []uint32, rules []uint16) ([]byte, error) {
	for len(pages) > 0 {
		n, count := 0, uint32(0)
		for n < len(pages) && (count+pages[n].Count)*rowBytes <= chunkBytes {
			count += pages[n].Count
			n++
		}
		e, err := s.alloc(max(count, 1) * rowBytes)
		if err != nil {
			return nil, err
		}
		b.rows = append(b.rows, e)
		to, at := s.heap.at(e), uint32(0)
		for _, page := range pages[:n] {
			directory = native.AppendUint16(directory, e.chunk)
			directory = native.AppendUint16(directory, uint16(e.offset/rowBytes+at))
			directory = native.AppendUint16(directory, uint16(page.Count))
			directory = native.AppendUint16(directory, 0)
			for _, row := range rows[page.First : page.First+page.Count] {
				native.PutUint32(to[at*rowBytes:], row&^0xffff|uint32(rules[row&0xffff]))
				at++
			}
		}
		pages = pages[n:]
	}
	return directory, nil
}

// translate returns the slot of each of a table's rules. Rules that do not fit get the slot of the zero rule.
func (s *Store) translate(b *Binary, rules []unwind.Rule) ([]uint16, error) {
	out := make([]uint16, len(rules))
	var fresh []int
	for i, rule := range rules {
		at, ok := s.rules.use(rule)
		if !ok {
			fresh = append(fresh, i)
			continue
		}
		out[i] = at
		b.rules = append(b.rules, at)
	}
	capacity, err := s.reserveRules(len(fresh))
	if err != nil {
		return nil, err
	}
	for _, i := range fresh[:capacity] {
		out[i] = s.rules.add(rules[i])
		b.rules = append(b.rules, out[i])
	}
	b.unruled = len(fresh) - capacity
	s.stats.RulesFull += uint64(b.unruled)
	return out, nil
}

// reserveRules frees slots for new rules of one table, and returns for how many of them there are slots.
func (s *Store) reserveRules(wanted int) (int, error) {
	for s.rules.capacity() < wanted {
		if len(s.rules.waiting) == 0 && !s.evict() {
			return s.rules.capacity(), nil
		}
		if err := s.reclaim(); err != nil {
			return 0, err
		}
	}
	return wanted, nil
}
