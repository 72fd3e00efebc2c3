// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync/atomic"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// subject is one program that a process runs or ran: it outlives the process
// until the kernel's last event of it has been read.
type subject struct {
	process atomic.Pointer[model.Process] // nil when out of scope
	scope   scopes
	// space is nil when the mappings could not be read: lost is set if the
	// program had ended before; otherwise access was refused, for example.
	space  atomic.Pointer[symbol.AddressSpace]
	lost   atomic.Bool
	tables tables
	// undecided: it was over before it could be read, so that it is not known
	// whether it was in scope. It is set before others see it.
	undecided bool
	// program is what was read, 0 if not known; guarded by the lock of subjects.
	program process.Program
	// ended is how many drains remain after the end, 0 while the program runs.
	ended int
	// unnamed counts user frames that had no space to be named in because it was
	// lost, and unread those for another cause.
	unnamed, unread *atomic.Uint64
	// notCode counts stacks that were cut where they led out of the code.
	notCode *atomic.Uint64
}

var _ observe.Subject = (*subject)(nil)

// scopes are the observations that a subject is in scope of: tasks begin and end while
// it is known.
type scopes struct{ bits atomic.Uint32 }

func (s *scopes) get() lifecycle.Scope      { return lifecycle.Scope(s.bits.Load()) }
func (s *scopes) set(scope lifecycle.Scope) { s.bits.Store(uint32(scope)) }

// Process implements observe.Subject.
func (s *subject) Process() *model.Process { return s.process.Load() }

// Runtime implements observe.Subject.
func (s *subject) Runtime() model.Runtime {
	if space := s.space.Load(); space != nil {
		return space.Runtime()
	}
	return model.Runtime{}
}

// knowsMore reports whether another one, of the same program, was read when less of it was
// there: it was over by then, or in the middle of its exec. The caller holds the lock of
// subjects.
func (s *subject) knowsMore(than *subject) bool {
	return s.space.Load() != nil && than.space.Load() == nil || s.program != 0 && than.lost.Load()
}

// Gone implements observe.Subject.
func (s *subject) Gone() bool {
	return s.lost.Load() && s.space.Load() == nil && !s.process.Load().KernelThread
}

// UserFrames implements observe.Subject.
func (s *subject) UserFrames(dst []*model.Frame, addresses []uint64, caller uint64) []*model.Frame {
	if space := s.space.Load(); space != nil {
		if code := max(space.Code(addresses), 1); code < len(addresses) {
			s.notCode.Add(1)
			addresses = addresses[:code]
		}
		var whole [maxFrames]uint64
		return space.Frames(dst, withCaller(whole[:0], space, addresses, caller))
	}
	if s.lost.Load() {
		s.unnamed.Add(uint64(len(addresses)))
	} else {
		s.unread.Add(uint64(len(addresses)))
	}
	for i, address := range addresses {
		if i > 0 && address > 0 {
			address-- // into the call
		}
		dst = append(dst, &model.Frame{Type: model.FrameNative, Address: address})
	}
	return dst
}

// maxFrames is the deepest user stack, and the caller of a leaf without a frame.
const maxFrames = 128

// withCaller returns the stack with caller after its leaf if that is where the
// leaf returns to, else as it is. to is used for the longer stack.
func withCaller(to []uint64, space *symbol.AddressSpace, addresses []uint64, caller uint64) []uint64 {
	if caller == 0 || len(addresses) == 0 || len(addresses) > 1 && addresses[1] == caller {
		return addresses
	}
	if !space.Called(addresses[0], caller) {
		return addresses
	}
	to = append(to, addresses[0], caller)
	return append(to, addresses[1:]...)
}

func (s *subject) close() {
	if space := s.space.Load(); space != nil {
		space.Close()
	}
	s.tables.leave(s)
}

// call names a process of which nothing else is known by what the kernel calls
// it: the question came without a name, the sample has one.
func (s *subject) call(comm string) {
	p := s.process.Load()
	if p == nil || comm == "" || p.ExecutableName() != "" {
		return
	}
	named := *p
	named.Comm = comm
	if named.ServiceName == unknownService {
		named.ServiceName += ":" + comm
	}
	s.process.Store(&named)
}
