// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

func TestAddSaturated(t *testing.T) {
	for _, tt := range []struct{ a, b, want int64 }{
		{1, 2, 3},
		{-1, 2, 1},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64},
		{math.MaxInt64, math.MinInt64, -1},
	} {
		require.Equal(t, tt.want, addSaturated(tt.a, tt.b), "%d + %d", tt.a, tt.b)
	}
}

// TestStackIndexTellsCollisionsApart gives different stacks the same hash.
func TestStackIndexTellsCollisionsApart(t *testing.T) {
	s := makeStackIndex()
	s.begin()
	stacks := [][]int32{{1}, {1, 2}, {2, 1}, {3}}
	for i, stack := range stacks {
		index, added := s.find(stack, 7)
		require.True(t, added)
		require.EqualValues(t, i+1, index)
	}
	for i, stack := range stacks {
		index, added := s.find(stack, 7)
		require.False(t, added)
		require.EqualValues(t, i+1, index)
	}
}

func TestSameLines(t *testing.T) {
	loc := pprofile.NewLocation()
	line := loc.Lines().AppendEmpty()
	line.SetFunctionIndex(1)
	line.SetLine(2)
	require.True(t, sameLines(loc, []lineIndex{{1, 2}}))
	require.False(t, sameLines(loc, nil))
	require.False(t, sameLines(loc, []lineIndex{{1, 3}}))
	require.False(t, sameLines(loc, []lineIndex{{2, 2}}))
	require.False(t, sameLines(loc, []lineIndex{{1, 2}, {1, 2}}))
}

func TestSizeVarint(t *testing.T) {
	for v, want := range map[uint64]int{0: 1, 127: 1, 128: 2, 16383: 2, 16384: 3, math.MaxUint64: 10} {
		require.Equal(t, want, sizeVarint(v), v)
	}
}
