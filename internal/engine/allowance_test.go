// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAllowance does work of 40 ms as fast as it may, after a rest that earns nothing beyond what may be done at once.
func TestAllowance(t *testing.T) {
	start := time.Unix(0, 0)
	a := newAllowance(2, backgroundAtOnce, start)
	now := start.Add(time.Hour)
	began, used := now, time.Duration(0)
	atOnce := time.Duration(0)
	for now.Sub(began) < 10*time.Minute {
		const piece = 40 * time.Millisecond
		now = now.Add(piece)
		used += piece
		wait := a.spend(now, piece)
		if wait == 0 {
			atOnce = used
		}
		now = now.Add(wait)
	}
	require.Equal(t, 480*time.Millisecond, atOnce, "half a second, of which some is earned meanwhile")
	// 0.5 % of ten minutes, and what was done at once.
	require.InDelta(t, 3500*time.Millisecond, used, float64(50*time.Millisecond))
}
