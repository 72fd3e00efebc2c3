// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// selectorList is a list of selectors of the configuration.
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

// match reports whether a selector of the list matches, and records first hits.
func (l *selectorList) match(s *candidate) bool { return l.first(s) != noInclude }

// first returns the index of the first selector that matches, or noInclude. After that, matching only serves to record the first hits of
// others.
func (l *selectorList) first(s *candidate) int {
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

// firstWithout is first where some conditions are not known; known is false where the result depends on them.
func (l *selectorList) firstWithout(s *candidate, unknown fieldSet) (index int, known bool) {
	for i, m := range l.matchers {
		switch {
		case !m.without(unknown).match(s):
		case m.fields&unknown != 0:
			return noInclude, false
		default:
			l.hits[i].Store(true)
			return i, true
		}
	}
	return noInclude, true
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
