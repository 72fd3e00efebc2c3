// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestMeasureShares profiles a program that knows how it spends its time, by three engines at three periods at once.
func TestMeasureShares(t *testing.T) {
	needRoot(t)
	seventy := testbin.C(t, "testdata/seventy.c")
	periods := []time.Duration{2 * time.Millisecond, 9 * time.Millisecond, 50 * time.Millisecond}
	// The samples of the longest period decide how long it takes: moments by chance need 2,100 for 3 % to be three times
	// their error, which the long form has.
	used := 12 * time.Second
	if inLongForm() {
		used = 55 * time.Second
	}
	copies := min(2, runtime.NumCPU())
	if testing.Short() || emulated {
		periods, used = periods[:2], 4*time.Second
	}
	if emulated {
		copies, used = 1, 3*time.Second
	}
	var engines []*observed
	for _, period := range periods {
		engines = append(engines, begin(t, configuration(period, process.Selector{Exe: seventy})))
	}
	var programs []*program
	for i := range copies {
		time.Sleep(time.Duration(i) * 23 * time.Millisecond) // two that keep step would be one
		programs = append(programs, launch(t, seventy, strconv.FormatInt(used.Milliseconds(), 10)))
	}
	var hot, total, wall time.Duration
	for _, p := range programs {
		spent := p.end()
		hot, total, wall = hot+spent[0], total+spent[2], wall+p.took
	}
	truth := hot.Seconds() / total.Seconds()
	require.InDelta(t, 0.7, truth, 0.05)
	for i, e := range engines {
		e.end()
		got := add(e.of(runs(seventy)))
		t.Logf("period %s: %s of %s CPU time in %s; hot %.4f of %.4f, cold %.4f; lost %v", periods[i], got, total, wall,
			got.within("main hot"), truth, got.within("main cold"), e.Stats().Lost)
		// A program that waits for a CPU is sampled at random moments of its own time, not at even distances.
		waited := max(0, 1-total.Seconds()/wall.Seconds()-0.05)
		whole := 0.03
		if waited > 0.1 {
			whole += 0.1 // programs take turns at the kernel's tick, of which the shortest period is a whole fraction
		}
		if emulated {
			waited, whole = 1, 0.5 // an emulated CPU stands still now and then, and its timer with it
		}
		chance := 3 * math.Sqrt(waited/float64(got.samples))
		share := max(0.03, 3*math.Sqrt(0.7*0.3/float64(got.samples)))
		hot, cold := got.within("main hot"), got.within("main cold")
		if emulated { // the start of the program and its looks at the clock take a tenth of its time there
			require.Greater(t, hot+cold, 0.7)
			hot, cold = hot/(hot+cold), cold/(hot+cold)
		}
		require.InDelta(t, truth, hot, share+chance/2, "period %s", periods[i])
		require.InDelta(t, 1-truth, cold, share+chance/2, "period %s", periods[i])
		require.InEpsilon(t, total.Seconds(), got.time.Seconds(), whole+chance, "period %s", periods[i])
	}
}
