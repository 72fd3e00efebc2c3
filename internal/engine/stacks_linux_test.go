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

// TestWithoutSomeStacks holds that a kind samples whichever stacks are asked for, alone as well.
func TestWithoutSomeStacks(t *testing.T) {
	withoutSomeStacks(t, func(t *testing.T, o *observed, computing string, user bool) {
		program := launch(t, computing, endless, "-")
		o.await(program.Process.Pid, func(got sum) bool { return got.samples > 100 && (!user || got.within("main") > 0) })
		program.kill()
		o.end()
		program.possible(add(o.of(isPID(program.Process.Pid))), 2*time.Millisecond)
		require.Equal(t, user, hasFrames(o.of(isPID(program.Process.Pid)), "main"))
	}, func(t *testing.T, o *observed, blocked string, user bool) {
		program := launch(t, blocked, "shares", endless)
		o.await(program.Process.Pid, func(got sum) bool { return got.samples > 0 && (!user || got.within("main") > 0) })
		program.kill()
		o.end()
		exported := total(o.waits(blocked, program.Process.Pid), all)
		require.Positive(t, exported)
		require.LessOrEqual(t, exported, program.took)
		require.Equal(t, user, hasFrames(o.of(isPID(program.Process.Pid)), "main"))
	})
}

// TestMeasureWithoutSomeStacks holds that CPU time agrees with the program's own account, waits as its clocks have them.
func TestMeasureWithoutSomeStacks(t *testing.T) {
	withoutSomeStacks(t, func(t *testing.T, o *observed, computing string, _ bool) {
		program := launch(t, computing, "600", "-")
		program.end()
		o.end()
		near(t, 600*time.Millisecond, add(o.of(isPID(program.Process.Pid))).time)
	}, func(t *testing.T, o *observed, blocked string, _ bool) {
		program := launch(t, blocked, "shares", "300")
		waited := program.end()
		require.Len(t, waited, 2)
		o.end()
		require.InEpsilon(t, (waited[0] + waited[1]).Seconds(), total(o.waits(blocked, program.Process.Pid), all).Seconds(), 0.1)
	})
}

// withoutSomeStacks has onCPU and offCPU each judge an engine that observes a program with some stacks alone; user says whether with the program's.
func withoutSomeStacks(t *testing.T, onCPU, offCPU func(t *testing.T, o *observed, program string, user bool)) {
	t.Helper()
	needRoot(t)
	computing, blocked := testbin.C(t, "testdata/chain.c"), testbin.C(t, "testdata/blocked.c")
	for name, c := range map[string]struct{ user, kernel bool }{
		"user alone": {true, false}, "kernel alone": {false, true}, "none": {false, false},
	} {
		t.Run("on_cpu, "+name, func(t *testing.T) {
			config := configuration(2*time.Millisecond, process.Selector{Exe: computing})
			planOf[*oncpu.Options](config).UserStacks, planOf[*oncpu.Options](config).KernelStacks = c.user, c.kernel
			onCPU(t, begin(t, config), computing, c.user)
		})
		t.Run("off_cpu, "+name, func(t *testing.T) {
			config := waiting(process.Selector{Exe: blocked})
			planOf[*offcpu.Options](config).UserStacks, planOf[*offcpu.Options](config).KernelStacks = c.user, c.kernel
			offCPU(t, begin(t, config), blocked, c.user)
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
