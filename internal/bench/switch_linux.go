// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

const (
	// switchTurns is how often each state is measured, in turns with the others;
	// switchRounds how many wake-ups there and back a measurement has: some 0.1 s.
	switchTurns  = 25
	switchRounds = 20000
	// switchLoad is a part's share of memory; the load makes few entries.
	switchLoad = 8 << 20
)

// attachment brings a state about and returns what ends it.
type attachment func() (func() error, error)

// switches measures what off_cpu adds to a context switch.
func (b *bench) switches(ctx context.Context) (err error) {
	progress("switch: two threads on one CPU, all states in %d turns", switchTurns)
	load, err := workload.StartPingPong(ctx, b.dir, b.nice, 1)
	if errors.Is(err, workload.ErrAbsent) {
		b.note("the part switch was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Stop()) }()
	observe := func(scope lifecycle.Scope) attachment {
		return func() (func() error, error) { return offCPU(uint32(load.PID()), scope) }
	}
	empty := func(hooks ...string) attachment {
		return func() (func() error, error) { return emptyPrograms(hooks) }
	}
	states := []struct {
		name   string
		attach attachment
	}{
		{report.SwitchBare, empty()},
		{report.SwitchEmpty, empty("sched_switch")},
		{report.SwitchEmptyBoth, empty("sched_switch", "sched_exit_tp")},
		{report.SwitchOutside, observe(lifecycle.ScopeNone)},
		{report.SwitchInside, observe(lifecycle.ScopeOffCPU)},
	}
	b.report.Switches = make([]report.Switch, len(states))
	for range switchTurns {
		for i, state := range states {
			took, err := measureSwitch(load, state.attach)
			if err != nil {
				return fmt.Errorf("%s: %w", state.name, err)
			}
			b.report.Switches[i].State = state.name
			b.report.Switches[i].Turns = append(b.report.Switches[i].Turns, took)
		}
	}
	return nil
}

func measureSwitch(load *workload.PingPong, attach attachment) (took time.Duration, err error) {
	end, err := attach()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if _, err := load.PerSwitch(switchRounds / 10); err != nil { // warms up
		return 0, err
	}
	return load.PerSwitch(switchRounds)
}

// offCPU runs the observation as the receiver does, with its default min_block.
func offCPU(pid uint32, scope lifecycle.Scope) (func() error, error) {
	loader := kernel.NewLoader()
	tracker, err := lifecycle.Start(loader, 32768)
	if err != nil {
		return nil, err
	}
	observer, err := offcpu.Start(offcpu.Config{
		Options:  offcpu.Options{MinBlock: time.Millisecond, Options: stacks.DefaultOptions()},
		MapBytes: switchLoad, SampleBytes: switchLoad, SysRoot: "/sys", ProcRoot: "/proc",
	}, loader, tracker.SharedMaps(), observetest.NewHost())
	if err != nil {
		return nil, errors.Join(err, tracker.Close())
	}
	end := func() error { return errors.Join(observer.Close(), tracker.Close()) }
	if err := tracker.Decide(pid, scope); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// emptyPrograms attaches programs that do nothing to tracepoints.
func emptyPrograms(hooks []string) (func() error, error) {
	var ends []func() error
	end := func() error {
		var errs []error
		for _, one := range ends {
			errs = append(errs, one())
		}
		return errors.Join(errs...)
	}
	for _, hook := range hooks {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "empty", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: hook, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("loading an empty program for %s: %w", hook, err), end())
		}
		ends = append(ends, program.Close)
		attached, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attaching an empty program to %s: %w", hook, err), end())
		}
		ends = append(ends, attached.Close)
	}
	return end, nil
}
