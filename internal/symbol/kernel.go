// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	kernelName = "[kernel.kallsyms]"
	// The table is read again for an unknown address when the list of modules
	// has changed, at most this often …
	moduleInterval = time.Second
	// … and otherwise, or for a new address of a BPF program, this often: no
	// list tells which programs come and go.
	bpfInterval = time.Minute
)

// kernel is what is known of the kernel. It is guarded by the mutex of the
// Symbolizer.
//
// The kernel itself is asked for names first. What it does not name, and
// everything where it cannot be asked, is looked up in the table that
// /proc/kallsyms gives.
type kernel struct {
	bin   *binary // holds the frames and the build id
	begun bool
	fresh time.Time // when frames were last forgotten
	text  span      // _text to _etext; empty where addresses are hidden
	whole *model.Mapping

	asked *ksyms // nil where the kernel cannot be asked

	table *kernelTable
	err   error     // why there is no table
	read  time.Time // when the table was

	modules     map[string]span
	hash        uint64    // of /proc/modules
	modulesRead time.Time // when that was
	images      map[imageKey]*model.Mapping
}

// imageKey tells images apart: a module, or what is an image of its own.
type imageKey struct {
	module, function string
	start            uint64
}

// maxImages bounds the images that are remembered; beyond it they are made anew.
const maxImages = 1 << 12

func (k *kernel) init(s *Symbolizer) {
	*k = kernel{bin: nameless(kernelName, kernelUnknown)}
	k.bin.pinned, k.bin.refs = true, 1
	s.all[k.bin] = struct{}{}
}

// KernelError says why kernel frames have no names, nil when they have or when
// no kernel address was seen yet.
func (s *Symbolizer) KernelError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernel.err
}

// KernelFrames appends the frames of a kernel stack as [AddressSpace.Frames]
// does for user stacks. Addresses count from the start of the kernel, of the
// module or of the BPF program (where the kernel hides its addresses, of the
// function), so that they do not tell where the kernel is; those that belong to
// nothing all share one frame with address 0.
func (s *Symbolizer) KernelFrames(dst []*model.Frame, addrs []uint64) []*model.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answers []kernelFunction // from the first address on that was not known
	for i := range addrs {
		pc := kernelPC(addrs, i)
		e := s.kernel.bin.frames.get(pc)
		if e != nil {
			s.count.hits++
		} else {
			if answers == nil {
				answers = s.askKernel(addrs, i)
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

// kernelPC gives the address that names a frame: callers' are return addresses.
func kernelPC(addrs []uint64, i int) uint64 {
	if pc := addrs[i]; i == 0 || pc == 0 {
		return pc
	}
	return addrs[i] - 1
}

// askKernel asks the kernel for the functions of those addresses, from the
// first on, that have no frame yet. Those that it does not know have no name.
func (s *Symbolizer) askKernel(addrs []uint64, first int) []kernelFunction {
	s.beginKernel()
	answers := s.answersFor(addrs, first)
	ofBPF := func(f kernelFunction) bool { return f.module == bpfModule }
	if s.now().Sub(s.kernel.fresh) > bpfInterval && slices.ContainsFunc(answers, ofBPF) {
		s.forgetKernel() // other programs may have been where frames were made of
		answers = s.answersFor(addrs, first)
	}
	return answers
}

func (s *Symbolizer) answersFor(addrs []uint64, first int) []kernelFunction {
	k := &s.kernel
	answers := make([]kernelFunction, len(addrs))
	if k.asked == nil {
		return answers
	}
	var pcs []uint64
	var places []int
	for i := first; i < len(addrs); i++ {
		if pc := kernelPC(addrs, i); k.bin.frames.get(pc) == nil {
			pcs, places = append(pcs, pc), append(places, i)
		}
	}
	said := make([]kernelFunction, len(pcs))
	if err := k.asked.ask(pcs, said); err != nil {
		s.failed(&reasonError{kernelUnknown, errors.Join(err, k.asked.close())})
		k.asked = nil
		return answers
	}
	for n, i := range places {
		answers[i] = said[n]
		if said[n].module == "" && isBPF(said[n], k.text) {
			answers[i].module = bpfModule
		}
	}
	return answers
}

// beginKernel finds out, with the first address, how the kernel's functions
// are named.
func (s *Symbolizer) beginKernel() {
	k := &s.kernel
	if k.begun || s.closed {
		return
	}
	k.begun, k.fresh = true, s.now()
	k.images = make(map[imageKey]*model.Mapping)
	k.bin.id.GNU = s.proc.noteID("sys/kernel/notes")
	k.setText(span{})
	if s.openKsyms == nil {
		return
	}
	asked, err := s.openKsyms()
	if err != nil {
		s.logger.Debug("The kernel cannot be asked for the names of its functions, /proc/kallsyms is read", zap.Error(err))
		return
	}
	k.asked = asked
	k.setText(asked.text)
}

func (k *kernel) setText(text span) {
	k.text = text
	k.whole = &model.Mapping{Limit: max(text.end, text.start) - text.start, Path: kernelName, BuildID: k.bin.id}
}

// resolveKernel makes the frame of an address that is not in the cache. said
// is what the kernel said of it.
func (s *Symbolizer) resolveKernel(pc uint64, said kernelFunction) *entry {
	s.count.misses++
	k := &s.kernel
	if said.name == "" {
		said = s.lookUpKernel(pc)
	}
	b := k.bin
	before := b.frames.bytes()
	defer func() { s.frameBytes += b.frames.bytes() - before }()
	if said.name == "" {
		return s.unknownKernel()
	}
	mapping, base := s.kernelMapping(said)
	e := &entry{function: said.start}
	e.frame = model.Frame{Type: model.FrameKernel, Mapping: mapping, Address: pc - base, Lines: e.line[:]}
	f := b.frames.functionFor(e.function)
	if f == nil {
		f = &model.Function{Name: said.name, SystemName: said.name}
		b.frames.putFunction(e.function, f)
	}
	e.line[0].Function = f
	b.frames.put(pc, e)
	return e
}

// unknownKernel gives the one frame for addresses without a symbol. Key 0 is
// free: no kernel address is 0.
func (s *Symbolizer) unknownKernel() *entry {
	k := &s.kernel
	e := k.bin.frames.get(0)
	if e == nil {
		e = &entry{cause: kernelUnknown}
		e.frame = model.Frame{Type: model.FrameKernel}
		if k.err != nil {
			e.frame.Mapping = k.whole
		}
		if errors.Is(k.err, errHidden) {
			e.cause = kernelHidden
		}
		k.bin.frames.put(0, e)
	}
	return e
}

// forgetKernel forgets the frames, which are made anew when they are asked for.
func (s *Symbolizer) forgetKernel() {
	k := &s.kernel
	s.resetFrames(k.bin)
	k.images = make(map[imageKey]*model.Mapping)
	k.fresh = s.now()
}

// kernelMapping gives the mapping of a function and the address that it counts
// from.
func (s *Symbolizer) kernelMapping(f kernelFunction) (*model.Mapping, uint64) {
	k := &s.kernel
	path := kernelName
	var image span
	if f.module != "" {
		path, image = "["+f.module+"]", s.moduleImage(f)
	} else if k.text.start > 0 && f.start >= k.text.start {
		return k.whole, k.text.start
	}
	key := imageKey{module: f.module, start: image.start}
	loaded := image.contains(f.start)
	if !loaded {
		// BPF programs, trampolines and the like are images of their own.
		image = span{f.start, f.start + f.size}
		key = imageKey{module: f.module, function: f.name, start: f.start}
	}
	m := k.images[key]
	if m == nil {
		m = &model.Mapping{Limit: image.end - image.start, Path: path}
		if loaded {
			m.BuildID.GNU = s.proc.noteID("sys/module", f.module, "notes/.note.gnu.build-id")
		}
		if len(k.images) == maxImages {
			clear(k.images)
		}
		k.images[key] = m
	}
	return m, image.start
}
