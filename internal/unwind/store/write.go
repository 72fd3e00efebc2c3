// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// write copies a table into chunks. What was copied when an error comes is b's to
// free.
func (s *Store) write(b *Binary, table *unwind.Table) error {
	rules := s.translate(table.Rules)
	directory := make([]byte, 0, min(len(table.Pages), segmentPages)*pageBytes)
	for first := 0; first < len(table.Pages); first += segmentPages {
		pages := table.Pages[first:min(first+segmentPages, len(table.Pages))]
		directory = directory[:0]
		var err error
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

// translate gives the place of each of a table's rules among those of all.
func (s *Store) translate(rules []unwind.Rule) []uint16 {
	out := make([]uint16, len(rules))
	for i, rule := range rules {
		at, ok := s.rules[rule]
		if !ok && len(s.rules) < maxRules {
			at = uint16(len(s.rules))
			s.rules[rule] = at
			s.writeRule(at, rule)
		} else if !ok {
			s.stats.RulesFull++
		}
		out[i] = at
	}
	return out
}

// writeRule writes struct unwind_rule.
func (s *Store) writeRule(at uint16, r unwind.Rule) {
	to := s.memory.rules[int(at)*ruleBytes:]
	native.PutUint32(to, uint32(r.CFAOffset))
	native.PutUint16(to[4:], uint16(r.FPOffset))
	native.PutUint16(to[6:], uint16(r.RAOffset))
	to[8], to[9], to[10], to[11] = byte(r.CFA), byte(r.FP), byte(r.RA), r.Addend
	native.PutUint16(to[12:], uint16(r.BXOffset))
	to[14] = byte(r.BX)
}
