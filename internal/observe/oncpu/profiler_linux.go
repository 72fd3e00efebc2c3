// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

// Profiler is the running on-CPU observation.
type Profiler struct {
	stacks.Record
	config Config
	coll   *ebpf.Collection
	events events
	layout layout
	// Fallback is set when cycles were wanted and the timer had to do.
	fallback error
}

var (
	_ observe.Observation = (*Profiler)(nil)
	_ observe.Reducer     = (*Profiler)(nil)
	_ observe.CPUFollower = (*Profiler)(nil)
	_ observe.Merger      = (*Profiler)(nil)
	_ observe.Timed       = (*Profiler)(nil)
	_ observe.Partial     = (*Profiler)(nil)
)

// Start loads the programs; [Profiler.Begin] begins to sample. shared are the maps of
// process.bpf.c.
func Start(config Config, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (*Profiler, error) {
	spec, err := bindings.LoadOnCPU()
	if err != nil {
		return nil, fmt.Errorf("reading the on-CPU program: %w", err)
	}
	p := &Profiler{config: config}
	p.coll, p.Record, err = stacks.Object{
		What: "the on-CPU program", Spec: spec, Shape: shape(config.Period),
		KernelStacks: config.KernelStacks, UserStacks: config.UserStacks, MaxDepth: config.MaxDepth,
		SampleBytes: config.SampleBytes, SysRoot: config.SysRoot, ProcRoot: config.ProcRoot,
		Arena: func(cpus int, depth stacks.Depth) uint32 {
			p.layout = planLayout(config.Period, depth, cpus, config.MapBytes)
			return p.layout.arenaBytes
		},
	}.Load(loader, shared, host)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// discoverPeriod is the time between two samples of the running processes, before sampling
// begins.
const discoverPeriod = time.Millisecond

// Discover lets user space discover the processes that run on the CPUs until wait returns,
// so that they are known before Begin. Nothing is sampled.
func (p *Profiler) Discover(wait func()) error {
	online, err := kernel.OnlineCPUs(p.config.SysRoot)
	if err != nil {
		return err
	}
	samples := kernel.PerfEvents{Program: p.coll.Programs[bindings.OnCPUProgMeet]}
	err = samples.Partly(samples.Follow(online, discoverPeriod))
	if err == nil {
		wait()
	}
	return errors.Join(err, samples.Close())
}

// Begin samples from now on.
func (p *Profiler) Begin() error {
	p.Collector.Begin()
	return p.attach()
}

// shape is what a sample says.
func shape(period time.Duration) stacks.Shape {
	return stacks.Shape{
		Kind:       Name,
		Sums:       []stacks.Sum{{ValueType: model.ValueType{Type: "samples", Unit: "count"}, Of: stacks.Count}},
		PeriodType: model.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     period,
	}
}

// attach opens the perf events; on a machine without a cycle counter it uses the timer
// instead.
func (p *Profiler) attach() error {
	p.events.Program = p.coll.Programs[bindings.OnCPUProgSample]
	if p.config.Event == EventCycles {
		p.events.Source = kernel.Cycles
	}
	err := errors.Join(p.events.setPeriod(p.config.Period), p.CPUsChanged())
	if p.config.Event == EventCycles && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)) {
		p.fallback = err
		p.events.Source = kernel.CPUClock
		err = errors.Join(p.events.Close(), p.CPUsChanged())
	}
	return p.events.Partly(err)
}

// Degraded says why the observation is less than what was configured, or nil.
func (p *Profiler) Degraded() error {
	if p.fallback == nil {
		return nil
	}
	return fmt.Errorf("event cycles is not available, cpu_clock is used: %w", p.fallback)
}

// LeftOut says why CPUs are not sampled since the start, or nil.
func (p *Profiler) LeftOut() error { return p.events.LeftOut() }

// DrainInterval is short enough that no table can fill.
func (p *Profiler) DrainInterval() time.Duration { return p.layout.drainInterval }

// Drain reads and clears the tables that the kernel has written.
func (p *Profiler) Drain() error {
	return errors.Join(p.Record.Drain(), p.events.turn(time.Now()))
}

// Levels is the number of steps by which sampling can be reduced.
func (p *Profiler) Levels() int { return observe.SamplingLevels }

// Effect is what the observation does at its level.
func (p *Profiler) Effect() string { return fmt.Sprintf("samples every %s", p.events.dither.period) }

// SetLevel doubles the period with each level.
func (p *Profiler) SetLevel(level int) error {
	period := p.config.Period << level
	if period == p.events.dither.period {
		return nil
	}
	// Samples that were counted with the old period must not be exported with the new
	// one. An error must not keep the events from firing again.
	err := errors.Join(p.events.Each((*kernel.PerfEvent).Pause), p.Drain())
	p.SetPeriod(period)
	return errors.Join(err, p.events.setPeriod(period), p.events.Each((*kernel.PerfEvent).Resume))
}

// CPUsChanged opens events on CPUs that came and closes those of CPUs that went.
func (p *Profiler) CPUsChanged() error {
	online, err := p.FollowCPUs()
	if err != nil {
		return err
	}
	return p.events.follow(online)
}

// Attached is the number of CPUs that are sampled.
func (p *Profiler) Attached() int { return p.events.Len() }

// Costs reads the kernel's run-time statistics of the program.
func (p *Profiler) Costs() ([]observe.ProgramCost, error) { return observe.Costs(p.coll) }

// Close stops sampling and frees everything.
func (p *Profiler) Close() error {
	err := errors.Join(p.events.Close(), p.Tables.Close())
	p.coll.Close()
	return err
}
