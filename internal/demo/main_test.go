// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRoundSplitsWork checks that the two functions share the steps of a round 70 to 30.
func TestRoundSplitsWork(t *testing.T) {
	require.Equal(t, 7*roundLength, 10*hotUnits)
	sum := demoSeventyPercent(1)
	require.NotZero(t, sum)
	require.NotZero(t, demoThirtyPercent(sum))
}

// TestMeasureRoundSplitsWork checks that they share its time so, too.
func TestMeasureRoundSplitsWork(t *testing.T) {
	var hot, cold []time.Duration
	for range 100 { // some of them are not disturbed by what else runs
		start := time.Now()
		sum := demoSeventyPercent(1)
		mid := time.Now()
		require.NotZero(t, demoThirtyPercent(sum))
		hot, cold = append(hot, mid.Sub(start)), append(cold, time.Since(mid))
	}
	h, c := fastest(hot).Seconds()*hotUnits, fastest(cold).Seconds()*(roundLength-hotUnits)
	require.InDelta(t, 0.7, h/(h+c), 0.08, "share of demoSeventyPercent")
}

// fastest returns the smallest duration: the one that was disturbed least.
func fastest(all []time.Duration) time.Duration {
	best := all[0]
	for _, d := range all[1:] {
		best = min(best, d)
	}
	return best
}

// TestRunEnds holds both ways for the load to end by itself.
func TestRunEnds(t *testing.T) {
	start := time.Now()
	require.NotZero(t, run(start.Add(50*time.Millisecond), 1, func() bool { return false }))
	require.Less(t, time.Since(start), time.Minute)

	require.Zero(t, run(time.Now().Add(time.Hour), 1, func() bool { return true }))
}
