// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Tables are the two tables of each CPU that has ever been online. AddCPUs, Drain, Fill
// and Close belong to one goroutine; methods that only report are safe for concurrent
// use.
type Tables struct {
	probe      string
	outer      *ebpf.Map // index: 2*CPU + generation
	offering   *kernel.Offering
	generation *ebpf.Variable // which of the two the kernel writes
	lostNoTab  *ebpf.Variable
	current    uint32
	flipped    time.Time // when the kernel began to write the current ones
	spec       *ebpf.MapSpec
	byCPU      map[int][2]*table
	fullest    float64 // at the last drain

	bytes                                      atomic.Uint64 // of all tables, and of the object's own maps
	seen, full, busy, noTable, unmerged, first atomic.Uint64
}

// NewTables returns the tables of a loaded object, none yet. spec is what it was
// loaded from, with its [Plan]; probe names the kind in losses.
func NewTables(probe observe.Kind, coll *ebpf.Collection, spec *ebpf.CollectionSpec) *Tables {
	return &Tables{
		probe:      string(probe),
		outer:      coll.Maps[bindings.OnCPUMapStackTables],
		offering:   kernel.NewOffering(),
		generation: coll.Variables[bindings.OnCPUVarGeneration],
		lostNoTab:  coll.Variables[bindings.OnCPUVarLostNoTable],
		spec:       spec.Maps[bindings.OnCPUMapStackTables].InnerMap,
		byCPU:      map[int][2]*table{},
	}
}

// AddCPUs creates the tables of those CPUs that have none yet.
func (t *Tables) AddCPUs(cpus []int) error {
	for _, cpu := range cpus {
		if err := t.add(cpu); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tables) add(cpu int) error {
	if _, ok := t.byCPU[cpu]; ok {
		return nil
	}
	var pair [2]*table
	for i := range pair {
		created, err := newTable(t.spec)
		if err != nil {
			return errors.Join(fmt.Errorf("CPU %d: %w", cpu, err), closeTables(pair))
		}
		pair[i] = created
		if err := t.offering.Put(t.outer, uint32(2*cpu+i), created.kernelMap); err != nil {
			t.offering.Wait()
			return errors.Join(fmt.Errorf("CPU %d: offering a sample table: %w", cpu, err), closeTables(pair))
		}
	}
	t.byCPU[cpu] = pair
	t.bytes.Add(2 * uint64(t.spec.ValueSize))
	return nil
}

// Drain turns the tables, calls visit with every entry that the kernel has written
// since the last Drain, and clears them.
func (t *Tables) Drain(visit func(Entry)) error {
	retired, err := t.flip()
	if err != nil {
		return err
	}
	var errs []error
	t.fullest = 0
	for _, one := range retired {
		t.count(one.head())
		t.fullest = max(t.fullest, one.fill())
		errs = append(errs, one.each(visit))
		one.clear()
	}
	var noTable uint64
	if err := t.lostNoTab.Get(&noTable); err != nil {
		errs = append(errs, fmt.Errorf("reading what was lost for want of a table: %w", err))
	} else {
		t.noTable.Store(noTable)
	}
	return errors.Join(errs...)
}

// flip makes the kernel write the other tables and returns those that it wrote
// so far. When it returns, no program writes them any more: updating a map of
// maps waits until all running programs have ended (kernel/bpf/syscall.c,
// maybe_wait_bpf_programs).
func (t *Tables) flip() ([]*table, error) {
	full := t.current
	t.current = 1 - full
	if err := t.generation.Set(t.current); err != nil {
		return nil, fmt.Errorf("turning the sample tables: %w", err)
	}
	t.flipped = time.Now()
	retired := make([]*table, 0, len(t.byCPU))
	waited := false
	for cpu, pair := range t.byCPU {
		if !waited {
			if err := t.outer.Put(uint32(2*cpu)+full, pair[full].kernelMap); err != nil {
				return nil, fmt.Errorf("waiting for the sampling programs: %w", err)
			}
			waited = true
		}
		retired = append(retired, pair[full])
	}
	return retired, nil
}

func (t *Tables) count(head *bindings.OnCPUStackTable) {
	t.seen.Add(head.Seen)
	t.full.Add(head.LostFull)
	t.busy.Add(head.LostBusy)
	t.unmerged.Add(head.Unmerged)
	if first := t.first.Load(); head.FirstNs != 0 && (first == 0 || head.FirstNs < first) {
		t.first.Store(head.FirstNs)
	}
}

// Samples is the number of observations, lost ones included.
func (t *Tables) Samples() uint64 { return t.seen.Load() + t.busy.Load() + t.noTable.Load() }

// FirstSample is when the first observation was made, in nanoseconds of
// CLOCK_MONOTONIC, or 0 while there is none that was drained.
func (t *Tables) FirstSample() uint64 { return t.first.Load() }

// Unmerged counts observations for which the hash found no free slot: they may
// have a twin in the same table. Nothing is lost by it; user space merges them.
func (t *Tables) Unmerged() uint64 { return t.unmerged.Load() }

// Fill is how full the fullest table was at the last Drain.
func (t *Tables) Fill() float64 { return t.fullest }

// MapBytes is the memory of the tables and of all other maps of the object that are its own.
func (t *Tables) MapBytes() uint64 { return t.bytes.Load() }

// Losses counts what the kernel could not keep, or not whole.
func (t *Tables) Losses() []observe.Loss {
	return []observe.Loss{
		{Probe: t.probe, Reason: "map_full", Count: t.full.Load()},
		{Probe: t.probe, Reason: "busy", Count: t.busy.Load()},
		{Probe: t.probe, Reason: "no_table", Count: t.noTable.Load()},
	}
}

// Close frees the tables; no program may run any more.
func (t *Tables) Close() error {
	t.offering.Wait()
	var errs []error
	for _, pair := range t.byCPU {
		errs = append(errs, closeTables(pair))
	}
	clear(t.byCPU)
	return errors.Join(errs...)
}

func closeTables(pair [2]*table) error {
	var errs []error
	for _, t := range pair {
		if t != nil {
			errs = append(errs, t.close())
		}
	}
	return errors.Join(errs...)
}
