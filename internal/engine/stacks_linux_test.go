// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestWithoutSomeStacks holds that a kind samples whichever stacks are asked for, alone as well: CPU time agrees with the program's own account,
// waits as its clocks have them.
func TestWithoutSomeStacks(t *testing.T) {
	needRoot(t)
	computing, blocked := testbin.C(t, "testdata/chain.c"), testbin.C(t, "testdata/blocked.c")
	for name, c := range map[string]struct{ user, kernel bool }{
		"user alone": {true, false}, "kernel alone": {false, true}, "none": {false, false},
	} {
		t.Run("on_cpu, "+name, func(t *testing.T) {
			config := configuration(2*time.Millisecond, process.Selector{Exe: computing})
			planOf[*oncpu.Options](config).UserStacks, planOf[*oncpu.Options](config).KernelStacks = c.user, c.kernel
			o := begin(t, config)
			program := launch(t, computing, "600", "-")
			program.end()
			o.end()
			got := add(o.of(isPID(program.Process.Pid)))
			near(t, 600*time.Millisecond, got.time)
			require.Equal(t, c.user, hasFrames(o.of(isPID(program.Process.Pid)), "main"))
		})
		t.Run("off_cpu, "+name, func(t *testing.T) {
			config := waiting(process.Selector{Exe: blocked})
			planOf[*offcpu.Options](config).UserStacks, planOf[*offcpu.Options](config).KernelStacks = c.user, c.kernel
			o := begin(t, config)
			program := launch(t, blocked, "shares", "300")
			waited := program.end()
			require.Len(t, waited, 2)
			o.end()
			exported := total(o.waits(blocked, program.Process.Pid), func(*model.Sample) bool { return true })
			require.InEpsilon(t, (waited[0] + waited[1]).Seconds(), exported.Seconds(), 0.1)
			require.Equal(t, c.user, hasFrames(o.of(isPID(program.Process.Pid)), "main"))
		})
	}
}

// hasFrames reports whether some stack has a function.
func hasFrames(profiles []*model.Profile, function string) bool {
	for _, p := range profiles {
		for i := range p.Samples {
			if below(function)(&p.Samples[i]) {
				return true
			}
		}
	}
	return false
}
