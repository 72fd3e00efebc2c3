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
	const left = 8*time.Millisecond - 32*time.Microsecond // half a period is lost in each second
	for i, rate := range []float64{
		1 - 1.0/64, 1 + 1.0/64, // a quarter of a sixteenth
		1 - (1+3*0.618034)/64, 1 + (1+3*0.618034)/64,
		1 - (1+3*0.236068)/64, 1 + (1+3*0.236068)/64,
	} {
		now := start.Add(time.Duration(i+1) * time.Second)
		require.False(t, d.due(now.Add(-time.Millisecond)))
		require.True(t, d.due(now))
		require.InDelta(t, float64(left)/rate, float64(d.turn(now)), 10)
	}
	long := dither{period: time.Second, last: start}
	require.False(t, long.due(start.Add(15*time.Second)), "a turn has room for the samples that it is to spread")
	require.True(t, long.due(start.Add(16*time.Second)))
}
