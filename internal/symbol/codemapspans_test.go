// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

func all(c *codeSpans) (list []codeSpan) {
	for _, b := range c.blocks {
		list = append(list, b...)
	}
	return list
}

func TestCodeSpansReplaceWhatTheyOverlap(t *testing.T) {
	var c codeSpans
	c.put(codeSpan{start: 100, size: 50, at: 1})
	c.put(codeSpan{start: 200, size: 50, at: 2})
	c.put(codeSpan{start: 150, size: 50, at: 3})
	require.Equal(t, 3, c.count, "neighbours are no overlap")
	for addr, want := range map[uint64]uint64{100: 1, 149: 1, 150: 3, 199: 3, 200: 2, 249: 2} {
		require.Equal(t, want, c.find(addr).at, "%d", addr)
	}
	require.Nil(t, c.find(99))
	require.Nil(t, c.find(250))
	c.put(codeSpan{start: 149, size: 60, at: 4})
	require.Equal(t, []codeSpan{{start: 149, size: 60, at: 4}}, all(&c))
	require.Nil(t, c.find(140), "what is overlapped in part is gone as a whole")
	top := codeSpan{start: ^uint64(0) - 10, size: 10, at: 5}
	c.put(top)
	require.Equal(t, top, *c.find(^uint64(0) - 1))
	require.Nil(t, c.find(^uint64(0)))
}

// TestCodeSpansAgainstAList compares with a list that is searched from its end, over many blocks.
func TestCodeSpansAgainstAList(t *testing.T) {
	guest.SameOnEveryKernel(t)
	random := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(i int) codeSpan{
		"anywhere":  func(int) codeSpan { return codeSpan{start: random.Uint64N(200_000), size: 1 + random.Uint32N(60)} },
		"upwards":   func(i int) codeSpan { return codeSpan{start: uint64(i * 40), size: 40} },
		"downwards": func(i int) codeSpan { return codeSpan{start: uint64((6000 - i) * 40), size: 40} },
		"large ones": func(i int) codeSpan {
			return codeSpan{start: random.Uint64N(100_000), size: 1 + random.Uint32N(1<<(i%17))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c codeSpans
			var list []codeSpan
			for i := range 6000 {
				s := next(i)
				s.at = uint64(i)
				c.put(s)
				list = slices.DeleteFunc(list, func(o codeSpan) bool { return o.start < s.end() && s.start < o.end() })
				list = append(list, s)
			}
			slices.SortFunc(list, func(a, b codeSpan) int { return int(a.start) - int(b.start) })
			require.Equal(t, list, all(&c))
			require.Equal(t, len(list), c.count)
			for _, b := range c.blocks {
				require.NotEmpty(t, b)
				require.LessOrEqual(t, cap(b), codeBlock)
			}
			for _, s := range list {
				require.Equal(t, s, *c.find(s.start))
				require.Equal(t, s, *c.find(s.end() - 1))
			}
			c.retain(func(s *codeSpan) bool { return s.at%3 == 0 })
			require.Equal(t, slices.DeleteFunc(list, func(s codeSpan) bool { return s.at%3 != 0 }), all(&c))
			require.LessOrEqual(t, len(c.blocks), c.count/codeBlock+1)
		})
	}
}

func BenchmarkCodeSpansPut(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var c codeSpans
	for b.Loop() {
		c.put(codeSpan{start: random.Uint64N(1<<26) * 64, size: 64})
	}
}
