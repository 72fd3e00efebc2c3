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
	needRoot(t)
	guest.TakesLong(t)
	descent := testbin.C(t, "testdata/descent.c")
	work, share := time.Second, 0.9
	switch {
	case emulated: // the first look at a program takes long there
		work, share = 3*time.Second, 0.5
	case testbin.UnderRace:
		share = 0.6
	}
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
			e.tabled(descent, strconv.Itoa(c.calls), milliseconds(time.Minute))
			p := launch(t, descent, strconv.Itoa(c.calls), milliseconds(work))
			p.end()
			e.end()
			all, matching, frames := int64(0), int64(0), map[int]int64{}
			for _, profile := range e.of(isPID(p.Process.Pid)) {
				for _, one := range profile.Samples {
					all += one.Values[0]
					frames[len(one.Frames)] += one.Values[0]
					require.LessOrEqual(t, len(one.Frames), c.max)
					if one.Error == c.end && len(one.Frames) >= min(c.calls, c.max) {
						matching += one.Values[0]
					}
				}
			}
			t.Logf("%d samples, %d as expected, by frames %v", all, matching, frames)
			require.Greater(t, float64(matching), share*float64(all), "those before the tables were there")
			if c.end == model.StackCut {
				require.GreaterOrEqual(t, e.Stats().Incomplete[LossKey{"on_cpu", "stack_cut"}], uint64(matching))
			}
		})
	}
}
