// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

// drainInterval is short enough for stacks that are hardly ever equal: a table
// takes a few hundred of the deepest.
const drainInterval = 250 * time.Millisecond

// Faults is the running observation of page faults.
type Faults struct {
	stacks.Record
	coll *ebpf.Collection
	// links are to the tracepoints; where the kernel has none, events are on each
	// CPU instead.
	links  []link.Link
	events kernel.PerfEvents
	level  int
}

var (
	_ observe.Observation = (*Faults)(nil)
	_ observe.Reducer     = (*Faults)(nil)
	_ observe.CPUFollower = (*Faults)(nil)
	_ observe.Merger      = (*Faults)(nil)
	_ observe.Timed       = (*Faults)(nil)
	_ observe.Partial     = (*Faults)(nil)
)

// tracepoints are the kernel's for page faults, by program.
var tracepoints = []string{bindings.MemoryFaultsProgPageFaultUser, bindings.MemoryFaultsProgPageFaultKernel}

// StartFaults loads the programs and counts page faults from then on. shared are
// the maps of process.bpf.c and of unwind tables.
func StartFaults(config Config, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (_ *Faults, err error) {
	traced := !config.Plain
	for _, name := range tracepoints {
		has, err := loader.HasTracepoint(name)
		if err != nil {
			return nil, err
		}
		traced = traced && has
	}
	spec, err := bindings.LoadMemoryFaults()
	if err != nil {
		return nil, fmt.Errorf("reading the page fault programs: %w", err)
	}
	if traced {
		delete(spec.Programs, bindings.MemoryFaultsProgPageFaultEvent)
	} else {
		for _, name := range tracepoints {
			delete(spec.Programs, name)
		}
	}
	f := &Faults{}
	if f.coll, f.Record, err = object(config, "the page fault programs", spec, faultShape).Load(loader, shared, host); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	f.events.Source, f.events.Program = kernel.PageFaults, f.coll.Programs[bindings.MemoryFaultsProgPageFaultEvent]
	if err := f.events.Partly(f.CPUsChanged()); err != nil {
		return nil, err
	}
	if !traced {
		return f, nil
	}
	for _, name := range tracepoints {
		attached, err := link.AttachTracing(link.TracingOptions{Program: f.coll.Programs[name]})
		if err != nil {
			return nil, fmt.Errorf("attaching to the tracepoint %s: %w", name, err)
		}
		f.links = append(f.links, attached)
	}
	return f, nil
}

var faultShape = stacks.Shape{
	Kind: Name,
	Sums: []stacks.Sum{{ValueType: model.ValueType{Type: "page_faults", Unit: "count"}, Of: stacks.Count}},
}

// object is an object of this kind, which takes user stacks alone.
func object(config Config, what string, spec *ebpf.CollectionSpec, shape stacks.Shape) stacks.Object {
	return stacks.Object{
		What: what, Spec: spec, Shape: shape, UserStacks: true, MaxDepth: stacks.DefaultDepth,
		MapBytes: config.MapBytes, SampleBytes: config.SampleBytes, SysRoot: config.SysRoot, ProcRoot: config.ProcRoot,
	}
}

// DrainInterval is how often the tables are emptied.
func (f *Faults) DrainInterval() time.Duration { return drainInterval }

// Levels is the number of steps by which fewer faults can be sampled.
func (f *Faults) Levels() int { return observe.SamplingLevels }

// Effect is what the observation does at its level.
func (f *Faults) Effect() string {
	if f.level == 0 {
		return "takes the stack of each page fault"
	}
	return fmt.Sprintf("takes the stack of one page fault in %d", 1<<f.level)
}

// SetLevel samples one fault in 2^level, which stands for all of them.
func (f *Faults) SetLevel(level int) error {
	f.level = level
	if err := f.coll.Variables[bindings.MemoryFaultsVarFaultMask].Set(uint32(1)<<level - 1); err != nil {
		return fmt.Errorf("setting how many page faults are sampled: %w", err)
	}
	return nil
}

// CPUsChanged makes tables for CPUs that came, and events where there are no
// tracepoints.
func (f *Faults) CPUsChanged() error {
	online, err := f.FollowCPUs()
	if err != nil || f.events.Program == nil {
		return err
	}
	return f.events.Follow(online, 0)
}

// LeftOut says why CPUs are not watched since the start, or nil.
func (f *Faults) LeftOut() error { return f.events.LeftOut() }

// Attached is the number of tracepoints, or of CPUs that are watched instead.
func (f *Faults) Attached() int { return len(f.links) + f.events.Len() }

// Costs reads the kernel's run-time statistics of the programs.
func (f *Faults) Costs() ([]observe.ProgramCost, error) { return observe.Costs(f.coll) }

// Close stops counting and frees everything.
func (f *Faults) Close() error {
	errs := []error{f.events.Close()}
	for _, l := range f.links {
		errs = append(errs, l.Close())
	}
	errs = append(errs, f.Tables.Close())
	f.coll.Close()
	return errors.Join(errs...)
}
