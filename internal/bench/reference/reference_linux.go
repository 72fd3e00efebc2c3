// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

const (
	// stacks is the number of different stacks that the map holds; stacks that collide there are not kept, which is
	// how the helper works.
	stacks = 16384
	counts = 16384
	// frameBytes is the size of a stack of 127 frames, the kernel's default limit.
	frameBytes = 127 * 8

	userStack = 1 << 8 // BPF_F_USER_STACK
	// The key of a count lies at the top of the program's stack: pid_tgid, user stack, kernel stack.
	keyAt, userAt, kernelAt, valueAt = -16, -8, -4, -24
)

// Work is what the reference program does in each sample.
type Work int

// Kinds of work.
const (
	// BothStacks and UserStack are what a profiler does with two stacks or one.
	BothStacks Work = iota
	UserStack
	// Unwinding has the kernel unwind its own stack and does nothing with it: no
	// profiler that exports kernel stacks can be cheaper.
	Unwinding
)

// Profiler is the reference program, attached to every CPU.
type Profiler struct {
	stacks, counts *ebpf.Map
	room           *ebpf.Map // for one stack on each CPU
	program        *ebpf.Program
	events         []*kernel.PerfEvent
	stats          io.Closer
}

// Start samples every CPU with a period.
func Start(period time.Duration, work Work, cpus int) (_ *Profiler, err error) {
	p := &Profiler{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting the reference program: %w", err), p.Close())
		}
	}()
	if p.stats, err = kernel.EnableRunStats(); err != nil {
		return nil, err
	}
	if p.stacks, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "ref_stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: frameBytes, MaxEntries: stacks,
	}); err != nil {
		return nil, err
	}
	if p.counts, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "ref_counts", Type: ebpf.Hash, KeySize: 16, ValueSize: 8, MaxEntries: counts,
	}); err != nil {
		return nil, err
	}
	if p.room, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "ref_room", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: frameBytes, MaxEntries: 1,
	}); err != nil {
		return nil, err
	}
	if p.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "ref_sample", Type: ebpf.PerfEvent, License: "Dual MIT/GPL", Instructions: p.instructions(work),
	}); err != nil {
		return nil, err
	}
	for cpu := range cpus {
		event, err := kernel.OpenPerfEvent(kernel.CPUClock, cpu, period, p.program)
		if err != nil {
			return nil, err
		}
		p.events = append(p.events, event)
	}
	return p, nil
}

func (p *Profiler) instructions(work Work) asm.Instructions {
	if work == Unwinding {
		return p.unwinding()
	}
	return p.counting(work == BothStacks)
}

// unwinding is, in C:
//
//	to = bpf_map_lookup_elem(room, &zero);
//	if (to) bpf_get_stack(ctx, to, frameBytes, 0);
func (p *Profiler) unwinding() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, kernelAt, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, p.room.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, kernelAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.Mov.Imm(asm.R3, frameBytes),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnGetStack.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}
}

// counting is, in C:
//
//	key = {bpf_get_current_pid_tgid(), bpf_get_stackid(ctx, stacks, BPF_F_USER_STACK), bpf_get_stackid(ctx, stacks, 0)};
//	count = bpf_map_lookup_elem(counts, &key);
//	if (count) __sync_fetch_and_add(count, 1); else bpf_map_update_elem(counts, &key, &one, BPF_ANY);
func (p *Profiler) counting(kernelStacks bool) asm.Instructions {
	out := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, keyAt, asm.R0, asm.DWord),
		asm.StoreImm(asm.RFP, kernelAt, 0, asm.Word),
	}
	out = append(out, p.stackID(userAt, userStack)...)
	if kernelStacks {
		out = append(out, p.stackID(kernelAt, 0)...)
	}
	return append(out,
		asm.LoadMapPtr(asm.R1, p.counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "new"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Ja.Label("end"),
		asm.Mov.Imm(asm.R1, 1).WithSymbol("new"),
		asm.StoreMem(asm.RFP, valueAt, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, p.counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, valueAt),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	)
}

func (p *Profiler) stackID(to int16, flags int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, p.stacks.FD()),
		asm.Mov.Imm(asm.R3, flags),
		asm.FnGetStackid.Call(),
		asm.StoreMem(asm.RFP, to, asm.R0, asm.Word),
	}
}

// Cost is what the kernel has measured so far.
func (p *Profiler) Cost() (kernel.ProgramCost, error) { return kernel.Cost(p.program) }

// Close detaches and frees everything.
func (p *Profiler) Close() error {
	var errs []error
	for _, event := range p.events {
		errs = append(errs, event.Close())
	}
	for _, m := range []*ebpf.Map{p.counts, p.stacks, p.room} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	if p.program != nil {
		errs = append(errs, p.program.Close())
	}
	if p.stats != nil {
		errs = append(errs, p.stats.Close())
	}
	return errors.Join(errs...)
}
