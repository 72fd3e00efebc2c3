// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

// threadsByID bounds the threads of which it is known when they left the CPU, where
// task storage cannot be used.
const threadsByID = 32768

// Observer is the running off-CPU observation.
type Observer struct {
	stacks.Record
	config   Config
	coll     *ebpf.Collection
	features features
	links    []link.Link
	pace     stacks.Pace
	level    int
	epoch    uint32 // scopes are checked again in each

	departures departures
	refused    error // why no hook sees threads run again, though the kernel has one

	overMax, lostThread, lostUntold, lostUnseen, stackless atomic.Uint64
	attached                                               atomic.Int64
}

var (
	_ observe.Observation = (*Observer)(nil)
	_ observe.Reducer     = (*Observer)(nil)
	_ observe.CPUFollower = (*Observer)(nil)
	_ observe.Merger      = (*Observer)(nil)
	_ observe.Timed       = (*Observer)(nil)
)

// Start loads the programs and observes from then on. shared are the maps of
// process.bpf.c and those of unwind tables.
func Start(config Config, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (*Observer, error) {
	has, err := featuresOf(loader, config.SysRoot, config.ProcRoot)
	if err != nil {
		return nil, err
	}
	return startOrLess(config, has, loader, shared, host)
}

// startOrLess starts with what the kernel has; where it refuses the hook in which threads run again, without that.
func startOrLess(config Config, has features, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (*Observer, error) {
	o, err := start(config, has, loader, shared, host)
	if has.finish == "" || !errors.Is(err, errAttach) {
		return o, err
	}
	// The kernel has kprobes but permits none, as in lockdown or where they are switched off.
	has.finish = ""
	refused := err
	if o, err = start(config, has, loader, shared, host); err != nil {
		return nil, errors.Join(refused, err)
	}
	o.refused = refused
	return o, nil
}

func start(config Config, has features, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (_ *Observer, err error) {
	spec, err := bindings.LoadOffCPU()
	if err != nil {
		return nil, fmt.Errorf("reading the off-CPU programs: %w", err)
	}
	o := &Observer{config: config, features: has, pace: stacks.NewPace(), epoch: 1}
	tableBytes := config.MapBytes
	if has.alone() {
		depth, err := stacks.DepthOf(config.MaxDepth, config.ProcRoot)
		if err != nil {
			return nil, err
		}
		tableBytes /= 2
		o.departures = planDepartures(depth, tableBytes)
	}
	o.departures.apply(spec)
	if err := has.trim(spec, threadsByID); err != nil {
		return nil, fmt.Errorf("preparing the off-CPU programs: %w", err)
	}
	o.coll, o.Record, err = stacks.Object{
		What: "the off-CPU programs", Spec: spec, Shape: shape,
		KernelStacks: config.KernelStacks, UserStacks: config.UserStacks, MaxDepth: config.MaxDepth,
		MapBytes: tableBytes, SampleBytes: config.SampleBytes, SysRoot: config.SysRoot, ProcRoot: config.ProcRoot,
	}.Load(loader, shared, host)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	if err := o.SetLevel(0); err != nil {
		return nil, err
	}
	o.links, err = o.features.attach(o.coll)
	o.attached.Store(int64(len(o.links)))
	return o, err
}

// DrainInterval is as short as the tables fill.
func (o *Observer) DrainInterval() time.Duration { return o.pace.Interval() }

// Drain reads and clears the tables that the kernel has written.
func (o *Observer) Drain() error {
	o.epoch++
	turned := o.coll.Variables[bindings.OffCPUVarEpoch].Set(o.epoch)
	drained := o.Record.Drain()
	o.pace.Drained(o.Fill())
	return errors.Join(turned, drained, o.count())
}

// count reads what the programs count of each CPU.
func (o *Observer) count() error {
	var cpus []bindings.OffCPUOffcpuCpu
	if err := o.coll.Maps[bindings.OffCPUMapOffcpuCpus].Lookup(uint32(0), &cpus); err != nil {
		return fmt.Errorf("reading what the off-CPU programs count: %w", err)
	}
	var overMax, thread, untold, unseen, stackless uint64
	for _, cpu := range cpus {
		overMax += cpu.OverMax
		thread += cpu.LostThread
		untold += cpu.LostUntold
		unseen += cpu.LostUnseen
		stackless += cpu.Stackless
	}
	o.overMax.Store(overMax)
	o.lostThread.Store(thread)
	o.lostUntold.Store(untold)
	o.lostUnseen.Store(unseen)
	o.stackless.Store(stackless)
	return nil
}

// Levels is the number of steps by which fewer stacks can be taken.
func (o *Observer) Levels() int { return observe.SamplingLevels }

// Effect is what the observation does at its level.
func (o *Observer) Effect() string {
	return fmt.Sprintf("takes stacks of waits of %s and longer", minBlock(o.config.MinBlock, o.level))
}

// SetLevel doubles the shortest wait whose stack is taken with each level.
func (o *Observer) SetLevel(level int) error {
	o.level = level
	return errors.Join(
		o.set(bindings.OffCPUVarMinBlock, minBlock(o.config.MinBlock, level)),
		o.set(bindings.OffCPUVarMaxBlock, o.config.MaxBlock))
}

// leastReduced is what doubling begins at where less was configured: nothing doubled is
// nothing.
const leastReduced = 50 * time.Microsecond

func minBlock(configured time.Duration, level int) time.Duration {
	if level == 0 {
		return configured
	}
	return max(configured, leastReduced) << level
}

func (o *Observer) set(name string, value time.Duration) error {
	if err := o.coll.Variables[name].Set(uint64(value.Nanoseconds())); err != nil {
		return fmt.Errorf("setting %s of the off-CPU programs to %s: %w", name, value, err)
	}
	return nil
}

// Degraded says why the observation is less than it could be, or nil.
func (o *Observer) Degraded() error {
	switch {
	case o.refused != nil:
		return fmt.Errorf("%w; %w", errTaken, o.refused)
	case o.features.alone():
		return errAlone
	}
	return nil
}

// Attached is the number of hooks.
func (o *Observer) Attached() int { return int(o.attached.Load()) }

// Losses counts what could not be kept, or not whole, since the start.
func (o *Observer) Losses() []observe.Loss {
	probe := string(Name)
	return append(o.Record.Losses(),
		observe.Loss{Probe: probe, Reason: "over_max_block", Count: o.overMax.Load()},
		observe.Loss{Probe: probe, Reason: "threads_full", Count: o.lostThread.Load()},
		observe.Loss{Probe: probe, Reason: "untold", Count: o.lostUntold.Load()},
		observe.Loss{Probe: probe, Reason: "ran_unseen", Count: o.lostUnseen.Load()},
		observe.Loss{Probe: probe, Reason: "stack_untaken", Count: o.stackless.Load(), Incomplete: true},
	)
}

// Costs reads the kernel's run-time statistics of the programs.
func (o *Observer) Costs() ([]observe.ProgramCost, error) { return observe.Costs(o.coll) }

// Close stops observing and frees everything.
func (o *Observer) Close() error {
	err := errors.Join(closeLinks(o.links), o.Tables.Close())
	o.coll.Close()
	return err
}
