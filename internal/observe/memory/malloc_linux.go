// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory/allocator"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

// pausedLevel is the level at which nothing is attached any more: what breakpoints
// cost a program cannot be made less by sampling less.
const pausedLevel = 6

// Malloc is the running observation of allocators.
type Malloc struct {
	stacks.Record
	config   MallocConfig
	coll     *ebpf.Collection
	attacher *attacher
	live     *liveSet
	distance uint64 // at the present level
	paused   bool
	since    time.Time // of the interval
}

var (
	_ observe.Observation = (*Malloc)(nil)
	_ observe.Reducer     = (*Malloc)(nil)
	_ observe.CPUFollower = (*Malloc)(nil)
	_ observe.Merger      = (*Malloc)(nil)
	_ observe.Timed       = (*Malloc)(nil)
	_ observe.Follower    = (*Malloc)(nil)
)

// entryPrograms has the program for each way to call an allocator.
var entryPrograms = [allocator.Calls]string{
	allocator.First:             bindings.MemoryMallocProgAllocateFirst,
	allocator.FirstOuter:        bindings.MemoryMallocProgAllocateFirstOuter,
	allocator.FirstThrows:       bindings.MemoryMallocProgAllocateFirstThrows,
	allocator.Product:           bindings.MemoryMallocProgAllocateProduct,
	allocator.Second:            bindings.MemoryMallocProgAllocateSecond,
	allocator.Third:             bindings.MemoryMallocProgAllocateThird,
	allocator.Reallocate:        bindings.MemoryMallocProgReallocateSecond,
	allocator.ReallocateProduct: bindings.MemoryMallocProgReallocateProduct,
	allocator.Release:           bindings.MemoryMallocProgRelease,
	allocator.Go:                bindings.MemoryMallocProgAllocateGo,
}

// StartMalloc loads the programs. They are attached to the processes for which
// [Malloc.Look] is called. shared are the maps of process.bpf.c and of unwind tables.
func StartMalloc(config MallocConfig, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (_ *Malloc, err error) {
	probes, err := kernel.NewUprobes(config.SysRoot)
	if err != nil {
		return nil, err
	}
	spec, err := bindings.LoadMemoryMalloc()
	if err != nil {
		return nil, fmt.Errorf("reading the allocator programs: %w", err)
	}
	session := false
	if !config.Plain {
		if session, err = loader.HasUprobeSession(); err != nil {
			return nil, err
		}
	}
	tracked := liveEntries(config.MapBytes / 2)
	spec.Maps[bindings.MemoryMallocMapLive].MaxEntries = tracked
	if err := set(spec, map[string]any{
		bindings.MemoryMallocVarSession: session, bindings.MemoryMallocVarTrackLive: config.Live,
		bindings.MemoryMallocVarSampleBytes: config.Distance,
	}); err != nil {
		return nil, err
	}
	if session {
		for call, name := range entryPrograms {
			spec.Programs[name].AttachType = attachedAs(allocator.Call(call))
		}
	}
	m := &Malloc{config: config, distance: config.Distance, since: time.Now()}
	m.live = newLiveSet(host, config.SampleBytes/2)
	tables := config.Config
	tables.MapBytes, tables.SampleBytes = config.MapBytes/2, config.SampleBytes/2
	if m.coll, m.Record, err = object(tables, "the allocator programs", spec, m.shape()).Load(loader, shared, host); err != nil {
		return nil, err
	}
	m.live.open(m.coll.Maps[bindings.MemoryMallocMapLive])
	m.attacher = startAttacher(config, probes, m.coll, m.live, session)
	return m, nil
}

func set(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s of the allocator programs: %w", name, err)
		}
	}
	return nil
}

// periodType is the type of the period: the distance between samples.
var periodType = model.ValueType{Type: "space", Unit: "bytes"}

func (m *Malloc) shape() stacks.Shape {
	shape := stacks.Shape{
		Kind: Name,
		Sums: []stacks.Sum{
			{ValueType: model.ValueType{Type: "alloc_space", Unit: "bytes"}, Of: func(e *stacks.Entry) uint64 {
				return whole(stacks.First(e), bytesBits, rand.Uint32())
			}},
			{ValueType: model.ValueType{Type: "alloc_objects", Unit: "count"}, Of: func(e *stacks.Entry) uint64 {
				return whole(stacks.Second(e), weightBits, rand.Uint32())
			}},
		},
		PeriodType: periodType,
		Period:     time.Duration(m.distance), // a number of bytes
	}
	if m.config.Live {
		shape.Describe = m.live.remember
	}
	return shape
}

// DrainInterval is how often the tables are emptied.
func (m *Malloc) DrainInterval() time.Duration { return drainInterval }

// Report returns the interval's allocations, and what is in use at its end.
func (m *Malloc) Report(until time.Time) model.Findings {
	since := m.since
	m.since = until
	found := m.Record.Report(until)
	if !m.config.Live || m.paused {
		m.live.idle()
		return found
	}
	inUse, err := m.live.report(since, until, int64(m.distance))
	if err != nil {
		m.config.Logger.Error("Reading which allocations are in use", zap.Error(err))
	}
	found.Profiles = append(found.Profiles, inUse...)
	return found
}

// Levels is the number of steps by which fewer allocations can be sampled.
func (m *Malloc) Levels() int { return pausedLevel }

// Effect is what the observation does at its level.
func (m *Malloc) Effect() string {
	if m.paused {
		return "samples no allocations"
	}
	return fmt.Sprintf("samples one allocation per %d bytes", m.distance)
}

// SetLevel doubles the distance between samples with each level. At the last one
// nothing is attached: allocations are neither seen nor reported, and the memory in use
// starts from zero when they are seen again.
func (m *Malloc) SetLevel(level int) error {
	if paused := level >= pausedLevel; paused != m.paused {
		m.paused = paused
		m.attacher.Pause(paused)
		if paused {
			return m.live.clear()
		}
	}
	distance := m.config.Distance << min(level, pausedLevel-1)
	if distance == m.distance {
		return nil
	}
	m.distance = distance
	// Each sample carries its own weight: those taken from now until the distance is set count as they should, too.
	err := m.Drain()
	m.SetPeriod(time.Duration(distance))
	if errSet := m.coll.Variables[bindings.MemoryMallocVarSampleBytes].Set(distance); errSet != nil {
		err = errors.Join(err, fmt.Errorf("setting the distance between sampled allocations: %w", errSet))
	}
	return err
}

// Attached is the number of functions with probes, over all processes.
func (m *Malloc) Attached() int { return m.attacher.Functions() }

// Look implements observe.Follower.
func (m *Malloc) Look(pid uint32) { m.attacher.Look(pid) }

// LookAll implements observe.Follower.
func (m *Malloc) LookAll() { m.attacher.LookAll() }

// Over implements observe.Follower.
func (m *Malloc) Over(id model.ProcessID, now uint32) {
	m.live.over(id, now)
	m.attacher.Executed(id.PID)
}

// Losses counts what could not be kept, or not whole.
func (m *Malloc) Losses() []observe.Loss {
	probe := string(Name)
	return append(m.Record.Losses(),
		observe.Loss{Probe: probe, Reason: "live_full", Count: m.count(bindings.MemoryMallocAllocationCountALLOCATION_LIVE_FULL), Incomplete: true},
		observe.Loss{Probe: probe, Reason: "untracked", Count: m.count(bindings.MemoryMallocAllocationCountALLOCATION_UNTRACKED), Incomplete: true},
		observe.Loss{Probe: probe, Reason: "live_unknown", Count: m.live.unknown.Load(), Incomplete: true},
		observe.Loss{Probe: probe, Reason: "not_attached", Count: m.attacher.Failed()},
	)
}

// Calls returns how often functions that allocate, and functions that free, were
// called.
func (m *Malloc) Calls() (allocating, freeing uint64) {
	return m.count(bindings.MemoryMallocAllocationCountALLOCATION_CALLS), m.count(bindings.MemoryMallocAllocationCountALLOCATION_RELEASES)
}

// count sums one of the kernel's counters over all CPUs.
func (m *Malloc) count(what bindings.MemoryMallocAllocationCount) uint64 {
	var perCPU []uint64
	if err := m.coll.Maps[bindings.MemoryMallocMapAllocationCounts].Lookup(uint32(what), &perCPU); err != nil {
		return 0 // an array has every element
	}
	sum := uint64(0)
	for _, n := range perCPU {
		sum += n
	}
	return sum
}

// Costs reads the kernel's run-time statistics of the programs. What a breakpoint
// costs a program is not in them.
func (m *Malloc) Costs() ([]observe.ProgramCost, error) { return observe.Costs(m.coll) }

// HeldBytes is the memory of the interval's samples and of the stacks of what is in
// use.
func (m *Malloc) HeldBytes() uint64 { return m.Collector.HeldBytes() + m.live.held.Load() }

// Close detaches and frees everything.
func (m *Malloc) Close() error {
	m.attacher.Close()
	err := m.Tables.Close()
	m.coll.Close()
	return err
}
