// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestMeasureNotInStep profiles a program that works for a quarter of every 8 ms, every 8 ms: a sampler that keeps its
// distance to it sees it always or never.
func TestMeasureNotInStep(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	const period, lasts = 8 * time.Millisecond, 8 * time.Second
	beat := testbin.C(t, "testdata/beat.c")
	e := begin(t, configuration(period, process.Selector{Exe: beat}))
	p := launch(t, beat, milliseconds(lasts), "8000", "2000")
	used := p.end()[0]
	e.end()
	got := add(e.of(runs(beat)))
	t.Logf("sampled %s of %s", got.time, used)
	expected := float64(used) / float64(period)
	// Moments that have nothing to do with the program would give this error or less in 997 of 1,000 runs.
	chance := 3 * math.Sqrt(expected*(1-used.Seconds()/lasts.Seconds()))
	require.InDelta(t, expected, float64(got.samples), chance)
}
