// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// selectorList is a list of selectors as it stands in the configuration.
type selectorList struct {
	// path is the key of the list, such as targets::include.
	path     string
	matchers []*Matcher
	// hits has one element for each selector: whether it ever matched.
	hits []atomic.Bool
}

// compileList compiles all selectors. The error names one: "targets::include[1]: exe: …".
func compileList(path string, selectors []Selector) (*selectorList, error) {
	list := &selectorList{path: path, hits: make([]atomic.Bool, len(selectors))}
	for i, s := range selectors {
		m, err := s.Compile()
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", path, i, err)
		}
		list.matchers = append(list.matchers, m)
	}
	return list, nil
}

// match says whether a selector of the list matches, and learns of first hits.
func (l *selectorList) match(s *subject) bool { return l.first(s) != noInclude }

// first returns the index of the first selector that matches, or noInclude.
// After it, matching only serves to learn of the first hits of others.
func (l *selectorList) first(s *subject) int {
	first := noInclude
	for i, m := range l.matchers {
		hit := &l.hits[i]
		if (first == noInclude || !hit.Load()) && m.match(s) {
			hit.Store(true)
			if first == noInclude {
				first = i
			}
		}
	}
	return first
}

// uses is the union of all conditions.
func (l *selectorList) uses() fieldSet {
	var f fieldSet
	for _, m := range l.matchers {
		f |= m.fields
	}
	return f
}

// open is the union of the conditions of the selectors that never matched.
func (l *selectorList) open() fieldSet {
	var f fieldSet
	for i, m := range l.matchers {
		if !l.hits[i].Load() {
			f |= m.fields
		}
	}
	return f
}

// unmatched names the selectors that never matched a process.
func (l *selectorList) unmatched() []string {
	var names []string
	for i := range l.hits {
		if !l.hits[i].Load() {
			names = append(names, fmt.Sprintf("%s[%d]", l.path, i))
		}
	}
	return names
}

// unmatched names the selectors of all lists that never matched a process.
func (t *Table) unmatched() []string {
	names := slices.Concat(t.rules.include.unmatched(), t.rules.exclude.unmatched())
	for _, n := range *t.narrowings.Load() {
		names = append(names, n.unmatched()...)
	}
	return names
}
