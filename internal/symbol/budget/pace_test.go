// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace reads a memory map as soon as allowed, at some cost for each time, and checks the pauses in milliseconds.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		cost, late time.Duration // late: how much later than allowed the map is read
		want       []int64
	}{
		{0, 0, []int64{2, 4, 8, 16, 32, 50, 50, 50}},
		{0, 10 * time.Millisecond, []int64{2, 4, 8, 16, 32, 50, 50, 50}},
		{0, 140 * time.Millisecond, []int64{2, 4, 8, 16, 32, 50, 50, 50}},
		{0, 201 * time.Millisecond, []int64{2, 2, 2, 2, 2}},
		{3 * time.Millisecond, 0, []int64{2, 4, 8, 16, 32, 150, 150, 150}},
		{time.Second, 0, []int64{2, 4, 8, 16, 32, 10_000, 10_000, 10_000}},
	} {
		var p Pace
		now := time.Unix(0, 0)
		require.Zero(t, p.Wait(now))
		var got []int64
		for range c.want {
			p.Read(0, now, now, c.cost)
			wait := p.Wait(now)
			got = append(got, wait.Milliseconds())
			now = now.Add(wait)
			require.Zero(t, p.Wait(now))
			now = now.Add(c.late)
		}
		require.Equal(t, c.want, got, c.cost)
		now = now.Add(time.Minute)
		p.Read(0, now, now, c.cost)
		require.Equal(t, paceMin, p.Wait(now), "after a calm time")
	}
}
