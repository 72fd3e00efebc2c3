// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func testHeap(chunks int) *heap {
	return newHeap(chunks, func(uint16) ([]byte, error) { return make([]byte, chunkBytes), nil })
}

func TestHeapFills(t *testing.T) {
	h := testHeap(2)
	a, err := h.alloc(chunkBytes)
	require.NoError(t, err)
	require.Equal(t, extent{chunk: 1, bytes: chunkBytes}, a)
	b, err := h.alloc(10)
	require.NoError(t, err)
	require.Equal(t, extent{chunk: 2, bytes: 16}, b, "rounded up to whole words")
	_, err = h.alloc(chunkBytes)
	require.ErrorIs(t, err, ErrFull)
	h.release(a)
	require.Equal(t, uint64(16), h.used)
	c, err := h.alloc(chunkBytes)
	require.NoError(t, err)
	require.Equal(t, a, c)
	_, err = h.alloc(chunkBytes + 1)
	require.ErrorContains(t, err, "out of bounds")
	_, err = h.alloc(0)
	require.ErrorContains(t, err, "out of bounds")
	require.Equal(t, uint64(2*chunkBytes), h.bytes())
}

// TestHeapKeepsApart allocates and releases at random: allocations never overlap, and all of them can be released.
func TestHeapKeepsApart(t *testing.T) {
	h := testHeap(5)
	random := rand.New(rand.NewPCG(1, 2))
	var held []extent
	owner := map[[2]uint32]int{} // (chunk, word) of allocations
	for step := range 20_000 {
		if random.IntN(2) == 0 && len(held) > 0 {
			i := random.IntN(len(held))
			e := held[i]
			for at := e.offset; at < e.offset+e.bytes; at += align {
				delete(owner, [2]uint32{uint32(e.chunk), at})
			}
			h.release(e)
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			continue
		}
		e, err := h.alloc(1 + random.Uint32N(6000))
		if err != nil {
			require.ErrorIs(t, err, ErrFull)
			continue
		}
		require.LessOrEqual(t, e.offset+e.bytes, uint32(chunkBytes))
		require.Zero(t, e.offset%align)
		for at := e.offset; at < e.offset+e.bytes; at += align {
			_, taken := owner[[2]uint32{uint32(e.chunk), at}]
			require.False(t, taken)
			owner[[2]uint32{uint32(e.chunk), at}] = step
		}
		held = append(held, e)
	}
	for _, e := range held {
		h.release(e)
	}
	require.Zero(t, h.used)
	for range 5 {
		_, err := h.alloc(chunkBytes)
		require.NoError(t, err, "free neighbours have become one again")
	}
}
