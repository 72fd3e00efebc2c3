// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/functions"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory/allocator"
)

// attacher attaches to the allocators of processes.
type attacher = functions.Attacher[[]allocator.Function]

func startAttacher(config MallocConfig, probes *kernel.Uprobes, coll *ebpf.Collection, live *liveSet, session bool) *attacher {
	p := placing{live: config.Live, session: session, probes: probes, coll: coll}
	return functions.Start(functions.Config[[]allocator.Function]{
		What: "the allocator", Unseen: "Some allocations are not seen", Targets: "observe::memory::targets",
		Find: allocator.Find, Wants: func(found []allocator.Function) bool { return len(found) > 0 }, Attach: p.attach,
		Decide: config.Decide, Met: live.discovered, Left: live.left, Open: config.Open, Charge: config.Charge, Logger: config.Logger,
	})
}

// placing puts the programs on functions.
type placing struct {
	live, session bool
	probes        *kernel.Uprobes
	coll          *ebpf.Collection
}

func (p placing) attach(to *functions.Attachment, found []allocator.Function, path string, pid uint32) error {
	var offsets [allocator.Calls][]uint64
	for _, f := range found {
		if f.Call == allocator.Release && !p.live {
			continue
		}
		offsets[f.Call] = append(offsets[f.Call], f.Offset)
	}
	var errs []error
	for call, at := range offsets {
		errs = append(errs, p.attachCall(to, allocator.Call(call), path, at, pid))
	}
	return errors.Join(errs...)
}

// attachCall attaches to the functions of one kind. Where not all of them can be
// attached to at once, each is tried by itself.
func (p placing) attachCall(to *functions.Attachment, call allocator.Call, path string, offsets []uint64, pid uint32) error {
	if len(offsets) == 0 {
		return nil
	}
	err := p.attachAt(to, call, path, offsets, pid)
	if err == nil || len(offsets) == 1 {
		return err
	}
	var errs []error
	for _, offset := range offsets {
		errs = append(errs, p.attachAt(to, call, path, []uint64{offset}, pid))
	}
	return errors.Join(errs...)
}

// attachedAs is what the programs are loaded as where the kernel has sessions. No return
// address of Go's may be changed, and a session of one process changes those of all processes
// that run the same program.
func attachedAs(call allocator.Call) ebpf.AttachType {
	if call == allocator.Go {
		return ebpf.AttachTraceUprobeMulti
	}
	return kernel.AttachUprobeSession
}

// attachEntry attaches to where functions begin.
func (p placing) attachEntry(call allocator.Call, path string, offsets []uint64, pid uint32) (*kernel.Uprobe, error) {
	program := p.coll.Programs[entryPrograms[call]]
	if p.session {
		return p.probes.AttachMulti(attachedAs(call), program, path, offsets, nil, pid)
	}
	return p.probes.Attach(kernel.UprobeEntry, program, path, offsets, pid)
}

func (p placing) attachAt(to *functions.Attachment, call allocator.Call, path string, offsets []uint64, pid uint32) error {
	probe, err := p.attachEntry(call, path, offsets, pid)
	if err != nil {
		return err
	}
	to.Add(probe, len(offsets))
	if returns := p.live && !p.session && call != allocator.Release && call != allocator.Go; returns {
		program := p.coll.Programs[bindings.MemoryMallocProgReturned]
		if probe, err = p.probes.Attach(kernel.UprobeReturn, program, path, offsets, pid); err != nil {
			return err
		}
		to.Add(probe, 0)
	}
	return nil
}
