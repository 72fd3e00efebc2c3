// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpaceListsCompiledCode checks the fields that unwind.h reads of code that has no table.
func TestSpaceListsCompiledCode(t *testing.T) {
	s := newStore(memory{
		grow: func(uint16) ([]byte, error) { return make([]byte, chunkBytes), nil }, rules: make([]byte, maxRules*ruleBytes),
		settle: func() error { return nil },
	}, 4)
	mappings := []Mapping{
		{Start: 1 << 40, End: 1<<40 + 8<<30, Kind: KindCompiled}, // longer than the maximum length
		{Start: 0x1000, End: 0x3000, Kind: KindCompiled},
		{Start: 0x2000, End: 0x4000, Kind: KindCompiled}, // overlaps
	}
	p, err := s.NewSpace(mappings)
	require.NoError(t, err)
	require.Zero(t, p.Skipped)
	list := s.heap.at(p.extent)
	require.EqualValues(t, 2, native.Uint32(list))
	for i, want := range []struct {
		start  uint64
		length uint32
	}{{0x1000, 0x2000}, {1 << 40, 1<<32 - 1}} {
		m := list[spaceHeadBytes+i*mappingBytes:]
		require.Equal(t, want.start, native.Uint64(m))
		require.Equal(t, want.start, native.Uint64(m[8:]), "base")
		require.Equal(t, want.length, native.Uint32(m[16:]))
		require.Zero(t, native.Uint16(m[20:]), "no chunk: no table")
		require.EqualValues(t, KindCompiled, native.Uint16(m[22:]))
	}
	s.Free(p)

	mappings = mappings[:0]
	for i := range uint64(maxMappings + 3) {
		mappings = append(mappings, Mapping{Start: i << 12, End: i<<12 + 1, Kind: KindCompiled})
	}
	p, err = s.NewSpace(mappings)
	require.NoError(t, err)
	require.Equal(t, 3, p.Skipped)
	s.Free(p)
}
