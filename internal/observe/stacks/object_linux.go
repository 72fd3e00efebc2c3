// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Object is an object whose programs take stacks, and what it may have.
type Object struct {
	// What names it in errors.
	What  string
	Spec  *ebpf.CollectionSpec
	Shape Shape
	// KernelStacks and UserStacks say which stacks are taken, MaxDepth how many
	// frames of each.
	KernelStacks, UserStacks bool
	MaxDepth                 int
	// MapBytes bounds the memory of the kernel's tables over all CPUs, SampleBytes
	// that of one interval's samples.
	MapBytes, SampleBytes uint64
	// Arena, if not nil, plans the size of a table instead of [ArenaShare].
	Arena func(cpus int, depth Depth) uint32
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
}

// Load verifies the programs and makes the tables of the CPUs that are online.
// Nothing is attached yet. shared are maps that other objects have made.
func (o Object) Load(loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (*ebpf.Collection, Record, error) {
	online, err := kernel.OnlineCPUs(o.SysRoot)
	if err != nil {
		return nil, Record{}, err
	}
	depth, err := DepthOf(o.MaxDepth, o.ProcRoot)
	if err != nil {
		return nil, Record{}, err
	}
	if err := o.plan(len(online), depth).Apply(o.Spec); err != nil {
		return nil, Record{}, fmt.Errorf("preparing %s: %w", o.What, err)
	}
	coll, err := loader.Load(o.What, o.Spec, shared)
	if err != nil {
		return nil, Record{}, err
	}
	r := Record{
		Tables:    NewTables(o.Shape.Kind, coll, o.Spec),
		Collector: NewCollector(host, o.Shape, depth, o.SampleBytes),
		sysRoot:   o.SysRoot,
	}
	r.Tables.bytes.Store(kernel.MapBytes(coll.Maps, shared))
	if err := r.AddCPUs(online); err != nil {
		err = errors.Join(err, r.Tables.Close())
		coll.Close()
		return nil, Record{}, err
	}
	return coll, r, nil
}

func (o Object) plan(cpus int, depth Depth) Plan {
	plan := Plan{Depth: depth, KernelStacks: o.KernelStacks, UserStacks: o.UserStacks}
	if o.Arena != nil {
		plan.ArenaBytes = o.Arena(cpus, depth)
	} else {
		plan.ArenaBytes = ArenaShare(MaxArenaBytes, o.MapBytes, cpus)
	}
	return plan
}
