// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// many makes a table of n rules of its own, each of which is valid for 16 bytes.
func many(salt int32, n int) *unwind.Table {
	const perPage = unwind.PageBytes / 16
	pages := (n + perPage - 1) / perPage
	t := &unwind.Table{Start: 0x1000, End: 0x1000 + uint64(pages)*unwind.PageBytes, Rules: []unwind.Rule{{}}}
	for i := range n {
		if i%perPage == 0 {
			t.Pages = append(t.Pages, unwind.Page{First: uint32(i)})
		}
		t.Pages[len(t.Pages)-1].Count++
		t.Rules = append(t.Rules, unwind.Rule{CFA: unwind.CFAStackPointer, CFAOffset: salt + int32(i)})
		t.Rows = append(t.Rows, uint32(i%perPage*16)<<16|uint32(i+1))
	}
	return t
}

func (s *small) acquireMany(t *testing.T, name string, salt int32, n int) *Binary {
	t.Helper()
	b, err := s.Acquire(name, func() (*unwind.Table, error) { return many(salt, n), nil })
	require.NoError(t, err)
	return b
}

// TestRulesOfMany checks that tables with very many rules, all of which are in use, leave capacity for those of others, and that rules which
// do not fit are counted and not used.
func TestRulesOfMany(t *testing.T) {
	s := newSmall(64)
	const n = 4000
	left := 0
	for i := range int32(40) {
		left += s.acquireMany(t, fmt.Sprint("hog ", i), 1_000_000*(i+1), n).Unruled()
	}
	require.Greater(t, left, 40*n-maxRules)
	require.Equal(t, uint64(left), s.Stats().RulesFull)
	require.Greater(t, s.Stats().RulesFill, 0.99)
	require.LessOrEqual(t, s.Stats().RulesFill, 1.0)
	after := s.acquire(t, "after", 5, 10)
	require.Zero(t, after.Unruled(), "a later program has its rules")
	p := s.spaceOf(t, 0, after)
	require.Equal(t, int32(5), s.offset(t, p, 0x1000))
	require.Equal(t, int32(13), s.offset(t, p, 0x1010))

	last := s.acquireMany(t, "last", -1_000_000, n)
	require.Positive(t, last.Unruled())
	p = s.spaceOf(t, 0, last)
	kept := n - last.Unruled()
	require.Equal(t, int32(-1_000_000+kept-1), s.offset(t, p, 0x1000+uint64(kept-1)*16))
	require.Zero(t, s.offset(t, p, 0x1000+uint64(kept)*16), "the rule that there is none")
}

// TestRulesAreGivenBack checks that a rule is removed with the last table that uses it, that its slot is reused only when no program reads
// it, and that those in use do not change.
func TestRulesAreGivenBack(t *testing.T) {
	s := newSmall(64)
	used := s.spaceOf(t, 0, s.acquire(t, "used", 7, 10))
	const n = 4000
	for i := range int32(40) {
		p := s.spaceOf(t, 0, s.acquireMany(t, fmt.Sprint("gone ", i), 1_000_000*(i+1), n))
		require.Equal(t, 1_000_000*(i+1)+n-1, s.offset(t, p, 0x1000+(n-1)*16))
		s.Free(p)
		require.Equal(t, int32(7), s.offset(t, used, 0x1000))
		require.Equal(t, int32(15), s.offset(t, used, 0x1010))
		require.LessOrEqual(t, len(s.Store.rules.slots), maxRules)
	}
	require.Zero(t, s.Stats().RulesFull)
	require.Positive(t, s.settled)
	for s.evict() {
	}
	require.Equal(t, 3, s.Stats().Rules, "none, and two of the table in use")
	settled := s.settled
	before := s.Store.rules.capacity()
	require.NoError(t, s.reclaim())
	require.Equal(t, settled+1, s.settled)
	require.Greater(t, s.Store.rules.capacity(), before, "free once no program reads them")
}

// TestRulesThatCannotWait checks that a slot is not reused while it is unknown whether it is still read.
func TestRulesThatCannotWait(t *testing.T) {
	s := newSmall(64)
	for i := range int32(9) {
		s.Free(s.spaceOf(t, 0, s.acquireMany(t, fmt.Sprint("gone ", i), 1_000_000*(i+1), 2000)))
	}
	s.err = errors.New("no such system call")
	_, err := s.Acquire("next", func() (*unwind.Table, error) { return many(-1_000_000, 4000), nil })
	require.ErrorIs(t, err, s.err)
	s.err = nil
	require.Zero(t, s.acquireMany(t, "next", -1_000_000, 4000).Unruled())
}
