// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind/store"
)

// tables are a subject's unwind tables.
type tables struct {
	of *unwinding // nil where no observation takes user stacks
	// key is the program whose tables are wanted; guarded by the lock of unwinding.
	key observe.SubjectKey

	mu     sync.Mutex
	space  *store.Space
	closed bool
}

// install puts tables in the place of those before, unless the subject is closed.
func (s *subject) install(space *store.Space) (old *store.Space, ok bool) {
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	if s.tables.closed {
		return nil, false
	}
	old, s.tables.space = s.tables.space, space
	return old, true
}

// handle is where the kernel finds the tables, 0 while there are none.
func (s *subject) handle() uint32 {
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	return s.tables.space.Handle()
}

// leave gives the tables up.
func (t *tables) leave(s *subject) {
	if t.of == nil {
		return
	}
	t.mu.Lock()
	space := t.space
	t.space, t.closed = nil, true
	t.mu.Unlock()
	t.of.leave(s, space)
}
