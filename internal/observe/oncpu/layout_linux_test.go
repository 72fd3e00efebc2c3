// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

// depth is that of stacks of which so many frames are taken, of the kernel's as many as it gives.
func depth(frames int) stacks.Depth {
	kernel := min(frames, stacks.DefaultDepth)
	return stacks.Depth{User: stacks.Cut{Asked: frames, Exported: frames}, Kernel: stacks.Cut{Asked: kernel, Exported: kernel}}
}

// capacity is the number of the largest entries that an arena takes.
func capacity(arena, entry int) int { return arena / entry }

func TestPlanLayout(t *testing.T) {
	for _, c := range []struct {
		period   time.Duration
		frames   int
		cpus     int
		mapBytes uint64
		want     layout
	}{
		{9 * time.Millisecond, 127, 2, 32 << 20, layout{294912, time.Second}},
		{time.Second, 127, 2, 32 << 20, layout{32768, time.Second}},
		{time.Millisecond, 127, 2, 32 << 20, layout{524288, 197600 * time.Microsecond}},
		{time.Millisecond, 127, 512, 32 << 20, layout{32768, 50 * time.Millisecond}},
		{time.Millisecond, 1, 2, 32 << 20, layout{126976, 976 * time.Millisecond}},
		{9 * time.Millisecond, 1024, 2, 32 << 20, layout{524288, 403200 * time.Microsecond}},
		{9 * time.Millisecond, 127, 1, 0, layout{32768, 108 * time.Millisecond}},
	} {
		require.Equal(t, c.want, planLayout(c.period, depth(c.frames), c.cpus, c.mapBytes), "%+v", c)
	}
}

// TestLayoutHoldsEveryInterval checks that no table can fill between two drains,
// with a fifth to spare, unless the shortest interval is longer than that.
func TestLayoutHoldsEveryInterval(t *testing.T) {
	for period := time.Millisecond; period <= time.Second; period = period*9/8 + 13*time.Microsecond {
		for frames := 1; frames <= stacks.MaxDepth; frames += 7 {
			for _, cpus := range []int{1, 2, 3, 4, 7, 8, 16, 63, 64, 96, 128, 256, 511, 512} {
				for _, mapBytes := range []uint64{0, 4 << 20, 32 << 20, 1 << 30} {
					checkLayout(t, period, frames, cpus, mapBytes)
				}
			}
		}
	}
}

func checkLayout(t *testing.T, period time.Duration, frames, cpus int, mapBytes uint64) {
	l := planLayout(period, depth(frames), cpus, mapBytes)
	worst := depth(frames).EntryBytes()
	bad := func(what string) {
		t.Helper()
		t.Fatalf("period %s, %d frames, %d CPUs, %d bytes: %+v: %s", period, frames, cpus, mapBytes, l, what)
	}
	if l.arenaBytes%4096 != 0 || l.arenaBytes < stacks.MinArenaBytes || l.arenaBytes > stacks.MaxArenaBytes {
		bad("arena out of bounds")
	}
	if l.drainInterval < minDrainInterval || l.drainInterval > maxDrainInterval {
		bad("interval out of bounds")
	}
	if total := 2 * uint64(cpus) * uint64(l.arenaBytes); total > max(mapBytes, 2*uint64(cpus)*stacks.MinArenaBytes) {
		bad("more memory than allowed")
	}
	samples := int(l.drainInterval / period)
	if room := capacity(int(l.arenaBytes), worst); samples*5/4 > room && l.drainInterval > minDrainInterval {
		bad("the arena can fill")
	}
}
