// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQueueKeepsOrder compares with a slice.
func TestQueueKeepsOrder(t *testing.T) {
	const limit = 5
	rnd := rand.New(rand.NewPCG(1, 1))
	q := NewQueue[int](limit)
	model := []int{} // -1 for what is only counted
	for i := range 3000 {
		if rnd.IntN(100) < 52 {
			q.Pop()
			model = model[min(1, len(model)):]
		} else {
			kept := len(model) < limit && !slices.Contains(model, -1)
			place := q.Push()
			require.Equal(t, kept, place != nil)
			if kept {
				*place = i
				model = append(model, i)
			} else {
				model = append(model, -1)
			}
		}
		require.Equal(t, model, listed(&q))
	}
	places := 0
	q.Places(func(*int) { places++ })
	require.Equal(t, limit, places)
}

// listed is what waits, -1 for what is only counted.
func listed(q *Queue[int]) []int {
	list := make([]int, q.Len())
	for i := range list {
		list[i] = -1
		if at := q.At(i); at != nil {
			list[i] = *at
		}
	}
	return list
}
