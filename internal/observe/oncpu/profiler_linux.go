// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Profiler is the running on-CPU observation.
type Profiler struct {
	config    Config
	coll      *ebpf.Collection
	tables    tables
	events    events
	layout    layout
	collected *collector
	fill      float64 // of the fullest table at the last drain
	// Fallback is set when cycles were wanted and the timer had to do.
	fallback error

	samples, full, noTable, unmerged, faults, unreadable atomic.Uint64
	firstSample                                          atomic.Uint64
	attached                                             atomic.Int64 // events
}

var _ observe.Observation = (*Profiler)(nil)

// Start loads the program and samples from then on. shared are the maps of
// process.bpf.c.
func Start(config Config, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (_ *Profiler, err error) {
	online, err := kernel.OnlineCPUs(config.SysRoot)
	if err != nil {
		return nil, err
	}
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("counting the possible CPUs: %w", err)
	}
	depth, err := depthOf(config)
	if err != nil {
		return nil, err
	}
	p := &Profiler{
		config:    config,
		layout:    planLayout(config.Period, depth.asked, len(online), config.MapBytes),
		collected: newCollector(host, depth, config.Period, config.SampleBytes),
	}
	if err := p.load(loader, shared, depth, possible); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	return p, p.attach(online)
}

// load verifies the program and prepares the maps.
func (p *Profiler) load(loader *kernel.Loader, shared map[string]*ebpf.Map, depth depth, possible int) error {
	spec, err := bindings.LoadOnCPU()
	if err != nil {
		return fmt.Errorf("reading the on-CPU program: %w", err)
	}
	outer := spec.Maps[bindings.OnCPUMapOncpuTables]
	outer.MaxEntries = uint32(2 * possible)
	outer.InnerMap.ValueSize = tableHeadBytes + p.layout.arenaBytes
	for name, value := range map[string]any{
		bindings.OnCPUVarArenaBytes:   p.layout.arenaBytes,
		bindings.OnCPUVarStackFrames:  uint32(depth.asked),
		bindings.OnCPUVarStackBytes:   uint32(8 * depth.asked),
		bindings.OnCPUVarKernelStacks: p.config.KernelStacks,
		bindings.OnCPUVarUserStacks:   p.config.UserStacks,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s of the on-CPU program: %w", name, err)
		}
	}
	if p.coll, err = loader.Load("the on-CPU program", spec, shared); err != nil {
		return err
	}
	p.tables.outer = p.coll.Maps[bindings.OnCPUMapOncpuTables]
	p.tables.generation = p.coll.Variables[bindings.OnCPUVarGeneration]
	p.tables.spec = outer.InnerMap
	p.tables.byCPU = map[int][2]*table{}
	return nil
}

// attach opens the perf events; where the machine has no cycle counter, the
// timer takes its place.
func (p *Profiler) attach(online []int) error {
	p.events = events{
		program: p.coll.Programs[bindings.OnCPUProgSample],
		byCPU:   map[int]*kernel.PerfEvent{},
	}
	if p.config.Cycles {
		p.events.source = kernel.Cycles
	}
	err := errors.Join(p.events.setPeriod(p.config.Period), p.follow(online))
	if p.config.Cycles && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)) {
		p.fallback = err
		p.events.source = kernel.CPUClock
		err = errors.Join(p.events.close(), p.follow(online))
	}
	return err
}

func (p *Profiler) follow(online []int) error {
	for _, cpu := range online {
		if err := p.tables.add(cpu); err != nil {
			return err
		}
	}
	err := p.events.follow(online)
	p.attached.Store(int64(len(p.events.byCPU)))
	return err
}

// Degraded says why the observation is less than what was configured, or nil.
func (p *Profiler) Degraded() error {
	if p.fallback == nil {
		return nil
	}
	return fmt.Errorf("event cycles is not available, cpu_clock is used: %w", p.fallback)
}

// DrainInterval is short enough that no table can fill.
func (p *Profiler) DrainInterval() time.Duration { return p.layout.drainInterval }

// FirstSample is when the first sample was taken, in nanoseconds of
// CLOCK_MONOTONIC, or 0 while there is none that was drained.
func (p *Profiler) FirstSample() uint64 { return p.firstSample.Load() }

// Drain reads and clears the tables that the kernel has written.
func (p *Profiler) Drain() error {
	retired, err := p.tables.flip()
	if err != nil {
		return err
	}
	var errs []error
	p.fill = 0
	for _, t := range retired {
		p.count(t.head())
		p.fill = max(p.fill, float64(t.head().Used)/float64(p.layout.arenaBytes))
		errs = append(errs, t.each(p.collected.add))
		t.clear()
	}
	p.collected.drained()
	return errors.Join(append(errs, p.events.turn(time.Now()))...)
}

func (p *Profiler) count(head *bindings.OnCPUOncpuTable) {
	p.samples.Add(head.Samples)
	p.full.Add(head.LostFull)
	p.unmerged.Add(head.Unmerged)
	p.faults.Add(head.Faults)
	p.unreadable.Add(head.Unreadable)
	if first := p.firstSample.Load(); head.FirstNs != 0 && (first == 0 || head.FirstNs < first) {
		p.firstSample.Store(head.FirstNs)
	}
	var noTable uint64
	if err := p.coll.Variables[bindings.OnCPUVarLostNoTable].Get(&noTable); err == nil {
		p.noTable.Store(noTable)
	}
}

// Report returns one profile for each process that was seen.
func (p *Profiler) Report(until time.Time) []*model.Profile {
	return p.collected.report(until)
}

// SetLevel doubles the period with each level.
func (p *Profiler) SetLevel(level int) error {
	period := p.config.Period << level
	if period == p.events.dither.period {
		return nil
	}
	// What was counted at the old period must not be told with the new one. An
	// error must not keep the events from firing again.
	err := errors.Join(p.events.each((*kernel.PerfEvent).Pause), p.Drain())
	p.collected.setPeriod(period)
	return errors.Join(err, p.events.setPeriod(period), p.events.each((*kernel.PerfEvent).Resume))
}

// CPUsChanged opens events on CPUs that came and closes those of CPUs that went.
func (p *Profiler) CPUsChanged() error {
	online, err := kernel.OnlineCPUs(p.config.SysRoot)
	if err != nil {
		return err
	}
	return p.follow(online)
}

// Attached is the number of CPUs that are sampled.
func (p *Profiler) Attached() int { return int(p.attached.Load()) }

// Samples is the number of samples taken, lost ones included.
func (p *Profiler) Samples() uint64 { return p.samples.Load() + p.noTable.Load() }

// Losses counts what could not be kept whole.
func (p *Profiler) Losses() []observe.Loss {
	return append([]observe.Loss{
		{Probe: "on_cpu", Reason: "map_full", Count: p.full.Load()},
		{Probe: "on_cpu", Reason: "no_table", Count: p.noTable.Load()},
		{Probe: "on_cpu", Reason: "stack_fault", Count: p.faults.Load(), Told: true},
		{Probe: "on_cpu", Reason: "stack_unreadable", Count: p.unreadable.Load(), Told: true},
	}, p.collected.losses()...)
}

// Unmerged counts samples for which the hash found no free slot: they may have a
// twin in the same table. Nothing is lost by it; user space merges them.
func (p *Profiler) Unmerged() uint64 { return p.unmerged.Load() }

// Costs reads the kernel's run-time statistics of the program.
func (p *Profiler) Costs() ([]observe.ProgramCost, error) {
	cost, err := kernel.Cost(p.events.program)
	if err != nil {
		return nil, err
	}
	return []observe.ProgramCost{{Program: bindings.OnCPUProgSample, Runs: cost.Runs, Time: cost.Time}}, nil
}

// Fill is how full the fullest table was at the last Drain.
func (p *Profiler) Fill() float64 { return p.fill }

// MapBytes is the memory of the tables.
func (p *Profiler) MapBytes() uint64 { return p.tables.bytes.Load() }

// HeldBytes is the memory of the interval's samples.
func (p *Profiler) HeldBytes() uint64 { return p.collected.held.Load() }

// Close stops sampling and frees everything.
func (p *Profiler) Close() error {
	err := errors.Join(p.events.close(), p.tables.close())
	p.coll.Close()
	return err
}

// depth is how deep stacks are taken and told.
type depth struct {
	asked int // frames asked of the kernel
	told  int // frames told; a stack that reaches asked is deeper and is cut here
}

// depthOf asks for one frame more than is told, to see which stacks are cut, as
// far as the kernel goes.
func depthOf(config Config) (depth, error) {
	path := config.ProcRoot + "/sys/kernel/perf_event_max_stack"
	text, err := os.ReadFile(path)
	if err != nil {
		return depth{}, fmt.Errorf("reading how deep the kernel unwinds: %w", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return depth{}, fmt.Errorf("reading %s: %w", path, err)
	}
	asked := min(config.MaxDepth+1, MaxDepth, limit)
	return depth{asked: asked, told: min(config.MaxDepth, asked)}, nil
}
