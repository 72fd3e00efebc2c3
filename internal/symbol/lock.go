// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// lock guards what the symbolizer holds. No call that a file system of an observed process answers is made while it is held: such a file
// system may take a second, and its processes must not keep the names of others waiting. Files are read outside of it, and closed after it is
// released.
type lock struct {
	mu    sync.Mutex
	later []func() // guarded by mu
}

// Lock implements sync.Locker.
func (l *lock) Lock() { l.mu.Lock() }

// TryLock locks it unless it is held.
func (l *lock) TryLock() bool { return l.mu.TryLock() }

// Unlock implements sync.Locker. It does what was left for after the lock.
func (l *lock) Unlock() {
	later := l.later
	l.later = nil
	l.mu.Unlock()
	for _, do := range later {
		do()
	}
}

// after has something done once the lock is released. It is held.
func (l *lock) after(do func()) { l.later = append(l.later, do) }

// outside makes a call without the lock, which is held before and afterwards. What the lock guards may have changed meanwhile.
func (l *lock) outside(call func()) {
	l.Unlock()
	defer l.Lock()
	call()
}

// filesInUse counts the uses of files that are read outside of the lock, which guards it. A file that is closed meanwhile stays open for them.
type filesInUse map[source]fileUse

type fileUse struct {
	count int
	path  string // of one that is to be closed
	close bool
}

// hold keeps a file open until it is released. The lock is held at both. A nil file is none.
func (s *Symbolizer) hold(src source) {
	if src == nil {
		return
	}
	use := s.inUse[src]
	use.count++
	s.inUse[src] = use
}

// release ends a use of a file.
func (s *Symbolizer) release(src source) {
	if src == nil {
		return
	}
	use := s.inUse[src]
	if use.count--; use.count > 0 {
		s.inUse[src] = use
		return
	}
	delete(s.inUse, src)
	if use.close {
		s.discard(use.path, src)
	}
}

// discard closes a file after the lock is released, or after its last use. An error is counted.
func (s *Symbolizer) discard(path string, src source) {
	if use, used := s.inUse[src]; used {
		use.path, use.close = path, true
		s.inUse[src] = use
		return
	}
	s.mu.after(func() {
		if err := src.Close(); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			err = reason.New(reason.NoFile, fmt.Errorf("closing %s: %w", path, err))
			s.failed(err)
			if s.closed {
				s.unclosed = append(s.unclosed, err)
			}
		}
	})
}
