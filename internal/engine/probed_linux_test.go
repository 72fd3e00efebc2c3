// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// allocates fits stacks that end in an allocating function, or in code without a name as where the kernel has put an instruction.
var allocates = regexp.MustCompile("^$|(alloc|free)$")

// TestProbed samples a program while its allocations are probed: where the kernel executes an instruction in place of the breakpoint, and below
// functions whose return it awaits, there are whole stacks, with the caller.
func TestProbed(t *testing.T) {
	probed(t, func(t *testing.T, e *observed, path string, _ bool) {
		p := launch(t, path, "0", endless)
		require.Eventually(t, func() bool {
			all, broken, within := e.allocating(p)
			for _, caller := range callers {
				if within[caller] == 0 {
					return false
				}
			}
			return all > broken
		}, time.Minute, 50*time.Millisecond)
		p.kill()
	})
}

// callers are the functions of the program that allocate and free.
var callers = []string{"turn get", "turn get_zeros", "turn put"}

// TestMeasureProbed holds that nearly all of these stacks are whole. Those of the moments in which the kernel puts return addresses back are not.
// They are few, and more where other threads want the CPU.
func TestMeasureProbed(t *testing.T) {
	before, limit := "300", 0.01 // until unwind tables are made
	if emulated {
		before, limit = "3000", 0.2 // moments in which the kernel notes what it does take long there
	}
	probed(t, func(t *testing.T, e *observed, path string, plain bool) {
		limit := limit
		if plain {
			limit *= 2
		}
		e.tabled(path, endless, "2000")
		p := launch(t, path, before, "2000")
		p.end()
		e.end()
		all, broken, within := e.allocating(p)
		t.Logf("%d samples, %d not whole, %v: %v", all, broken, within, e.broken(p.Process.Pid))
		require.Greater(t, all, int64(500))
		require.LessOrEqual(t, float64(broken), limit*float64(all), "what the kernel has not noted yet, or no more")
		for _, caller := range callers {
			// Few where one of the functions costs the most by far: free begins with an instruction that is stepped, which is
			// dear in some virtual machines.
			require.Greater(t, float64(within[caller]), 0.005*float64(all), "%s of %v", caller, within)
		}
		whole := float64(all - broken)
		require.GreaterOrEqual(t, float64(within["turn get"]+within["turn get_zeros"]+within["turn put"]), 0.99*whole, "a whole stack has the caller")
	})
}

// allocating counts the samples of a program that are in an allocating function: all, those that are not whole, and those by caller.
func (o *observed) allocating(p *program) (all, broken int64, within map[string]int64) {
	within = map[string]int64{}
	for _, profile := range o.of(isPID(p.Process.Pid)) {
		if profile.SampleTypes[0].Type != "samples" {
			continue
		}
		for _, one := range profile.Samples {
			stack := names(one.Frames)
			if !allocates.MatchString(stack) {
				continue
			}
			all += one.Values[0]
			if one.Error != model.StackWhole {
				broken += one.Values[0]
			}
			for _, caller := range callers {
				if strings.Contains(stack+" ", "turns "+caller+" ") {
					within[caller] += one.Values[0]
				}
			}
		}
	}
	return all, broken, within
}

// probed passes an engine that samples the program and probes its allocations, in each way.
func probed(t *testing.T, judge func(t *testing.T, e *observed, path string, plain bool)) {
	t.Helper()
	needRoot(t)
	guest.TakesLong(t)
	path := testbin.C(t, "testdata/allocating.c")
	for name, plain := range map[string]bool{"by sessions": false, "by breakpoints at returns": true} {
		t.Run(name, func(t *testing.T) {
			config := configuration(time.Millisecond, process.Selector{Exe: path})
			config.Observe = append(config.Observe, &memory.Options{Common: observe.Common{ReportInterval: time.Second}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(64 << 10), Live: true, Plain: plain})
			judge(t, begin(t, config), path, plain)
		})
	}
}
