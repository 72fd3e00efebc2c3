// SPDX-License-Identifier: Apache-2.0

package oncpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDitherKeepsTheMean follows a timer that is set anew at each turn, as the kernel does it, for many turns.
func TestDitherKeepsTheMean(t *testing.T) {
	for _, period := range []time.Duration{time.Millisecond, 8 * time.Millisecond, 9 * time.Millisecond, time.Second} {
		start := time.Unix(1000, 0)
		d := dither{period: period}
		current, fires := d.turn(start), 0
		next := start.Add(current)
		now, end := start, start.Add(20_000*period)
		phases := map[int]int{} // of a rhythm of the same period, in eighths
		for step := 0; now.Before(end); step++ {
			now = now.Add(max(ditherTurn, ditherPeriods*period)/2 + time.Duration(step%17)*period/16)
			for !next.After(now) {
				fires++
				phases[int(next.Sub(start)%period*8/period)]++
				next = next.Add(current)
			}
			if d.due(now) {
				current = d.turn(now)
				next = now.Add(current)
			}
		}
		require.InEpsilon(t, float64(now.Sub(start))/float64(period), float64(fires), 0.002, "period %s", period)
		for i := range 8 {
			require.InEpsilon(t, float64(fires)/8, float64(phases[i]), 0.2, "period %s, phase %d", period, i)
		}
	}
}

func TestDitherTurns(t *testing.T) {
	start := time.Unix(1000, 0)
	d := dither{period: 8 * time.Millisecond, last: start}
	require.False(t, d.due(start.Add(999*time.Millisecond)))
	require.True(t, d.due(start.Add(time.Second)))
	const lost = 32 * time.Microsecond // 4 ms in 1 s
	require.Equal(t, 8*time.Millisecond+125*time.Microsecond-lost, d.turn(start.Add(time.Second)))
	require.False(t, d.due(start.Add(1999*time.Millisecond)))
	require.Equal(t, 8*time.Millisecond-125*time.Microsecond-lost, d.turn(start.Add(2*time.Second)))
	long := dither{period: time.Second, last: start}
	require.False(t, long.due(start.Add(63*time.Second)), "a turn has room for the samples that it is to spread")
	require.True(t, long.due(start.Add(64*time.Second)))
}
