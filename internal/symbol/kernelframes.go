// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// kernelFrames has the frames of the kernel. It is guarded by the mutex of the Symbolizer.
type kernelFrames struct {
	bin   *binary // holds the frames
	names *kernelsym.Names
}

// newKernelFrames makes the frames of the kernel, with the names of its functions.
func newKernelFrames(s *Symbolizer, root string) kernelFrames {
	k := kernelFrames{bin: nameless(kernelsym.Kernel, reason.KernelUnknown)}
	k.bin.pinned, k.bin.refs = true, 1
	s.all[k.bin] = struct{}{}
	k.names = kernelsym.New(root, kernelKeeper{s}, s.memory/4*3, func() time.Time { return s.now() }, s.logger)
	return k
}

// kernelKeeper keeps the frames and counts the memory of the kernel's names. Its methods are called with the symbolizer locked.
type kernelKeeper struct{ s *Symbolizer }

// KernelForgotten implements kernelsym.Keeper.
func (k kernelKeeper) KernelForgotten() { k.s.resetFrames(k.s.kernel.bin) }

// KernelFailed implements kernelsym.Keeper.
func (k kernelKeeper) KernelFailed(err error) { k.s.failed(err) }

// KernelTable implements kernelsym.Keeper.
func (k kernelKeeper) KernelTable(change int64) {
	k.s.tableBytes += change
	if change > 0 {
		k.s.count.tablesBuilt++
		k.s.makeRoom(0, nil)
	}
}

// KernelError is why kernel frames have no names, nil when they have or when no kernel address was seen yet.
func (s *Symbolizer) KernelError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernel.names.Err()
}

// KernelFrames appends the frames of a kernel stack as [AddressSpace.Frames] does for user stacks. Addresses count from the start of the
// kernel, of the module or of the BPF program (if the kernel hides its addresses, of the function), so that they do not reveal where the
// kernel is. All addresses outside of these share one frame with address 0.
func (s *Symbolizer) KernelFrames(dst []*model.Frame, addrs []uint64) []*model.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answers []kernelsym.Function // from the first unknown address on
	for i := range addrs {
		pc := kernelPC(addrs, i)
		e := s.kernel.bin.frames.get(pc)
		if e != nil {
			s.count.hits++
		} else {
			if answers == nil {
				answers = s.kernel.ask(addrs, i)
			}
			e = s.resolveKernel(pc, answers[i])
		}
		dst = append(dst, s.returned(e))
	}
	if s.held() > s.memory {
		s.makeRoom(0, nil)
	}
	return dst
}

// kernelPC returns the address that names a frame: callers' are return addresses.
func kernelPC(addrs []uint64, i int) uint64 {
	if pc := addrs[i]; i == 0 || pc == 0 {
		return pc
	}
	return addrs[i] - 1
}

// ask asks the kernel for the functions of those addresses, from the first on, that have no frame yet. Those that it does not know have no name.
func (k *kernelFrames) ask(addrs []uint64, first int) []kernelsym.Function {
	k.names.Begin()
	answers := k.answersFor(addrs, first)
	if k.names.Renew(answers) {
		answers = k.answersFor(addrs, first)
	}
	return answers
}

func (k *kernelFrames) answersFor(addrs []uint64, first int) []kernelsym.Function {
	answers := make([]kernelsym.Function, len(addrs))
	if !k.names.Asks() {
		return answers
	}
	var pcs []uint64
	var places []int
	for i := first; i < len(addrs); i++ {
		if pc := kernelPC(addrs, i); k.bin.frames.get(pc) == nil {
			pcs, places = append(pcs, pc), append(places, i)
		}
	}
	for n, f := range k.names.Ask(pcs) {
		answers[places[n]] = f
	}
	return answers
}

// resolveKernel makes the frame of an address that is not in the cache. said is the kernel's answer.
func (s *Symbolizer) resolveKernel(pc uint64, said kernelsym.Function) *entry {
	s.count.misses++
	k := &s.kernel
	if said.Name == "" {
		said = k.names.LookUp(pc)
	}
	b := k.bin
	before := b.frames.bytes()
	defer func() { s.frameBytes += b.frames.bytes() - before }()
	if said.Name == "" {
		return k.unknown()
	}
	mapping, base := k.names.Mapping(said)
	e := &entry{function: said.Start}
	e.frame = model.Frame{Type: model.FrameKernel, Mapping: mapping, Address: pc - base, Lines: e.line[:]}
	f := b.frames.functionFor(e.function)
	if f == nil {
		f = &model.Function{Name: said.Name, SystemName: said.Name}
		b.frames.putFunction(e.function, f)
	}
	e.line[0].Function = f
	b.frames.put(pc, e)
	return e
}

// unknown returns the one frame for addresses without a symbol. Key 0 is free: no kernel address is 0.
func (k *kernelFrames) unknown() *entry {
	e := k.bin.frames.get(0)
	if e == nil {
		e = &entry{cause: reason.KernelUnknown}
		e.frame = model.Frame{Type: model.FrameKernel}
		if k.names.Err() != nil {
			e.frame.Mapping = k.names.Whole()
		}
		if k.names.Hidden() {
			e.cause = reason.KernelHidden
		}
		k.bin.frames.put(0, e)
	}
	return e
}
