// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// Plan is the configuration of stacks that an object's programs get before they are
// loaded.
type Plan struct {
	// ArenaBytes is the room for entries of one table, see [ArenaShare].
	ArenaBytes uint32
	Depth      Depth
	// KernelStacks and UserStacks say which stacks are taken.
	KernelStacks, UserStacks bool
}

// Apply writes the plan to an object that includes stack_table.h.
func (p Plan) Apply(spec *ebpf.CollectionSpec) error {
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting the possible CPUs: %w", err)
	}
	outer := spec.Maps[bindings.OnCPUMapStackTables]
	outer.MaxEntries = uint32(2 * possible)
	spec.Maps[bindings.OnCPUMapUnwindCpus].MaxEntries = uint32(possible)
	outer.InnerMap.ValueSize = tableHeadBytes + p.ArenaBytes
	for name, value := range map[string]any{
		bindings.OnCPUVarArenaBytes:   p.ArenaBytes,
		bindings.OnCPUVarUserFrames:   uint32(p.Depth.User.Asked),
		bindings.OnCPUVarHelperBytes:  uint32(8 * p.Depth.Kernel.Asked),
		bindings.OnCPUVarEntryBytes:   uint32(p.Depth.EntryBytes()),
		bindings.OnCPUVarKernelStacks: p.KernelStacks,
		bindings.OnCPUVarUserStacks:   p.UserStacks,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s of a program that takes stacks: %w", name, err)
		}
	}
	return nil
}
