// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestDeepByTables has stacks of more frames than are taken by default, none of which keeps a frame pointer: they are whole
// where there is room for them, and else cut at the far end, which the sample and the counter say.
func TestDeepByTables(t *testing.T) {
	deepByTables(t, func(t *testing.T, e *observed, descent string, calls int, deep func(*program) (all, matching int64)) {
		p := launch(t, descent, strconv.Itoa(calls), endless)
		require.Eventually(t, func() bool {
			_, matching := deep(p)
			return matching > 0
		}, time.Minute, 50*time.Millisecond)
		p.kill()
		e.end()
		_, matching := deep(p)
		require.Positive(t, matching)
	})
}

// TestMeasureDeepByTables holds that nearly all stacks are so: those after the tables were there.
func TestMeasureDeepByTables(t *testing.T) {
	work, share := time.Second, 0.9
	switch {
	case emulated: // the first look at a program takes long there
		work, share = 3*time.Second, 0.5
	case testbin.UnderRace:
		share = 0.6
	}
	deepByTables(t, func(t *testing.T, e *observed, descent string, calls int, deep func(*program) (all, matching int64)) {
		e.tabled(descent, strconv.Itoa(calls), endless)
		p := launch(t, descent, strconv.Itoa(calls), milliseconds(work))
		p.end()
		e.end()
		all, matching := deep(p)
		require.Greater(t, float64(matching), share*float64(all), "those before the tables were there")
	})
}

// deepByTables has judge observe descent with so many calls. deep counts the samples of a program, and those of them that are as they should be.
func deepByTables(t *testing.T, judge func(t *testing.T, e *observed, descent string, calls int, deep func(*program) (all, matching int64))) {
	t.Helper()
	needRoot(t)
	guest.TakesLong(t)
	descent := testbin.C(t, "testdata/descent.c")
	for _, c := range []struct {
		max, calls int
		end        model.StackError
		inGuests   bool
	}{
		{stacks.DefaultDepth, stacks.DefaultDepth - 20, model.StackWhole, true},
		{stacks.DefaultDepth, stacks.DefaultDepth, model.StackCut, false},
		{stacks.MaxDepth, stacks.MaxDepth - 20, model.StackWhole, false},
		{stacks.MaxDepth, 3000, model.StackCut, true},
	} {
		t.Run(strconv.Itoa(c.calls)+" calls, "+strconv.Itoa(c.max)+" taken", func(t *testing.T) {
			dependsOnKernel(t, c.inGuests)
			config := configuration(2*time.Millisecond, process.Selector{Exe: descent})
			planOf[*oncpu.Options](config).KernelStacks, planOf[*oncpu.Options](config).MaxDepth = false, c.max
			e := begin(t, config)
			longest, most := 0, int64(0)
			judge(t, e, descent, c.calls, func(p *program) (all, matching int64) {
				for _, profile := range e.of(isPID(p.Process.Pid)) {
					for _, one := range profile.Samples {
						all += one.Values[0]
						longest = max(longest, len(one.Frames))
						if one.Error == c.end && len(one.Frames) >= min(c.calls, c.max) {
							matching += one.Values[0]
						}
					}
				}
				most = max(most, matching)
				return all, matching
			})
			t.Logf("%d samples as expected, of %d frames at most", most, longest)
			require.LessOrEqual(t, longest, c.max)
			if c.end == model.StackCut {
				require.GreaterOrEqual(t, e.Stats().Incomplete[LossKey{"on_cpu", "stack_cut"}], uint64(most))
			}
		})
	}
}
