// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"sync/atomic"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// maxAwaited bounds the frames of compiled code, of all processes together, whose names may come later; awaitFor is how long they wait.
	maxAwaited = 16384
	awaitFor   = time.Minute

	awaitedBytes = entryBytes + 64
)

// awaited is a frame of compiled code that its process has not listed so far: a JVM does on request, others some time after they have
// compiled it, and while a perf map is rewritten it lists nothing.
type awaited struct {
	e     *entry
	since time.Time
}

// await has a frame named when its process lists the code.
func (s *Symbolizer) await(a *AddressSpace, pc uint64, e *entry) {
	if s.closed || a.closed || s.jitted.awaited >= maxAwaited {
		return
	}
	if a.jit.late == nil {
		a.jit.late = map[uint64]awaited{}
	}
	if before, ok := a.jit.late[pc]; ok { // which was dropped from the cache
		s.arrive(a, pc, before, nil)
	}
	e.pending, e.frame.Late = true, new(atomic.Pointer[model.Frame])
	a.jit.late[pc] = awaited{e, s.now()}
	s.jitted.awaited++
}

// arrivals names frames whose code is listed now, and gives up those that have waited long enough.
func (s *Symbolizer) arrivals(a *AddressSpace, now time.Time) {
	a.jit.swept = now
	for pc, w := range a.jit.late {
		if span, file := a.jit.find(pc); span != nil {
			final := s.compiledAt(a, pc, span, file)
			if now, waits := a.jit.late[pc]; waits && now.e == w.e { // the lock was released
				s.arrive(a, pc, w, final)
			}
		} else if now.Sub(w.since) >= awaitFor {
			s.arrive(a, pc, w, nil)
		}
	}
}

// arrive ends the wait for a name; final is nil if none came.
func (s *Symbolizer) arrive(a *AddressSpace, pc uint64, w awaited, final *entry) {
	cause := w.e.cause
	if final != nil {
		w.e.frame.Late.Store(&final.frame)
		cause = final.cause
	}
	s.count.frames[cause] += uint64(w.e.unsettled)
	w.e.pending, w.e.unsettled = false, 0
	delete(a.jit.late, pc)
	s.jitted.awaited--
}
