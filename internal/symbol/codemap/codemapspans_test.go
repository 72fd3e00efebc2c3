// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

func all(c *Spans) (list []Span) {
	for _, b := range c.blocks {
		list = append(list, b...)
	}
	return list
}

func TestCodeSpansReplaceWhatTheyOverlap(t *testing.T) {
	var c Spans
	c.put(Span{Start: 100, size: 50, At: 1})
	c.put(Span{Start: 200, size: 50, At: 2})
	c.put(Span{Start: 150, size: 50, At: 3})
	require.Equal(t, 3, c.Count, "neighbours are no overlap")
	for addr, want := range map[uint64]uint64{100: 1, 149: 1, 150: 3, 199: 3, 200: 2, 249: 2} {
		require.Equal(t, want, c.Find(addr).At, "%d", addr)
	}
	require.Nil(t, c.Find(99))
	require.Nil(t, c.Find(250))
	c.put(Span{Start: 149, size: 60, At: 4})
	require.Equal(t, []Span{{Start: 149, size: 60, At: 4}}, all(&c))
	require.Nil(t, c.Find(140), "a partly overlapped span is removed entirely")
	top := Span{Start: ^uint64(0) - 10, size: 10, At: 5}
	c.put(top)
	require.Equal(t, top, *c.Find(^uint64(0) - 1))
	require.Nil(t, c.Find(^uint64(0)))
}

// TestCodeSpansAgainstAList compares with a list that is searched from its end, over many blocks.
func TestCodeSpansAgainstAList(t *testing.T) {
	guest.SameOnEveryKernel(t)
	random := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(i int) Span{
		"anywhere":  func(int) Span { return Span{Start: random.Uint64N(200_000), size: 1 + random.Uint32N(60)} },
		"upwards":   func(i int) Span { return Span{Start: uint64(i * 40), size: 40} },
		"downwards": func(i int) Span { return Span{Start: uint64((6000 - i) * 40), size: 40} },
		"large ones": func(i int) Span {
			return Span{Start: random.Uint64N(100_000), size: 1 + random.Uint32N(1<<(i%17))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c Spans
			var list []Span
			for i := range 6000 {
				s := next(i)
				s.At = uint64(i)
				c.put(s)
				list = slices.DeleteFunc(list, func(o Span) bool { return o.Start < s.end() && s.Start < o.end() })
				list = append(list, s)
			}
			slices.SortFunc(list, func(a, b Span) int { return int(a.Start) - int(b.Start) })
			require.Equal(t, list, all(&c))
			require.Equal(t, len(list), c.Count)
			for _, b := range c.blocks {
				require.NotEmpty(t, b)
				require.LessOrEqual(t, cap(b), codeBlock)
			}
			for _, s := range list {
				require.Equal(t, s, *c.Find(s.Start))
				require.Equal(t, s, *c.Find(s.end() - 1))
			}
			c.Retain(func(s *Span) bool { return s.At%3 == 0 })
			require.Equal(t, slices.DeleteFunc(list, func(s Span) bool { return s.At%3 != 0 }), all(&c))
			require.LessOrEqual(t, len(c.blocks), c.Count/codeBlock+1)
		})
	}
}

func BenchmarkCodeSpansPut(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var c Spans
	for b.Loop() {
		c.put(Span{Start: random.Uint64N(1<<26) * 64, size: 64})
	}
}
