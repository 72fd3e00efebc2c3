// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

const switchOfCPU1 = "/sys/devices/system/cpu/cpu1/online"

// turn takes CPU 1 off line or brings it back.
func turn(t *testing.T, state string) {
	t.Helper()
	require.NoError(t, os.WriteFile(switchOfCPU1, []byte(state), 0o644))
}

func needSwitch(t *testing.T) {
	t.Helper()
	needRoot(t)
	if state, err := os.ReadFile(switchOfCPU1); err != nil || string(state) != "1\n" {
		t.Skipf("CPU 1 cannot be taken off line here: %s is %q, %v", switchOfCPU1, state, err)
	}
	if err := os.WriteFile(switchOfCPU1, []byte("1"), 0o644); err != nil {
		t.Skipf("CPU 1 cannot be taken off line here: %v", err)
	}
	t.Cleanup(func() { turn(t, "1") })
}

// pin lets a program run on CPU 1 alone.
func (p *program) pin() {
	p.t.Helper()
	var one unix.CPUSet
	one.Set(1)
	require.NoError(p.t, unix.SchedSetaffinity(p.Process.Pid, &one))
}

// TestCPUsComeAndGo holds that a CPU that was away is sampled again.
func TestCPUsComeAndGo(t *testing.T) {
	cpusComeAndGo(t, func(e *observed, chain string) {
		p := launch(t, chain, endless, "-")
		p.pin()
		e.reportNow()
		before := add(e.of(isPID(p.Process.Pid))).samples
		e.await(p.Process.Pid, func(got sum) bool { return got.samples > before+10 })
		p.kill()
	})
}

// TestMeasureCPUsComeAndGo holds that all of the program's time is sampled.
func TestMeasureCPUsComeAndGo(t *testing.T) {
	cpusComeAndGo(t, func(e *observed, chain string) {
		time.Sleep(time.Second) // the kernel sends an event and the engine follows, which takes a while under load
		p := launch(t, chain, "500", "-")
		p.pin()
		p.end()
		e.end()
		got := add(e.of(isPID(p.Process.Pid)))
		t.Logf("%s of 500 ms", got)
		near(t, 500*time.Millisecond, got.time)
	})
}

func cpusComeAndGo(t *testing.T, judge func(e *observed, chain string)) {
	t.Helper()
	needSwitch(t)
	chain := testbin.C(t, "testdata/chain.c")
	for name, away := range map[string]time.Duration{"for a while": 300 * time.Millisecond, "for a moment": 0} {
		t.Run(name, func(t *testing.T) {
			e := begin(t, configuration(time.Millisecond, process.Selector{Exe: chain}))
			turn(t, "0")
			time.Sleep(away)
			turn(t, "1")
			judge(e, chain)
			require.Zero(t, e.Stats().Lost[LossKey{"on_cpu", "no_table"}])
		})
	}
}

// TestHotPlugTells holds that the kernel's messages arrive.
func TestHotPlugTells(t *testing.T) {
	needSwitch(t)
	h, err := kernel.WatchHotPlug()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	for _, state := range []string{"0", "1"} {
		turn(t, state)
		select {
		case <-h.Events():
		case <-time.After(time.Minute):
			t.Fatalf("no event after the CPU was turned to %s", state)
		}
	}
}
