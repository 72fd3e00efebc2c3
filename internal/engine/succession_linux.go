// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// A process is read some time after the kernel has met one of its programs, and
// /proc only shows the one that it runs then. What is read is of the program
// that was met or of a later one, never of an earlier; the following keeps what
// was read of a later one from being told of the one that was met.

// superseded tells whether a process is known to have run another program since.
func (s *subjects) superseded(key observe.SubjectKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.byProcess[key.ID()] {
		if later(other, key) {
			return true
		}
	}
	return false
}

// later tells which of two programs of one process came after the other.
func later(a, b observe.SubjectKey) bool { return int32(a.ExecID-b.ExecID) > 0 }

// supersede ends the programs that a process ran before one that was met. The
// caller holds the lock.
func (s *subjects) supersede(key observe.SubjectKey, met *subject) {
	for _, other := range s.byProcess[key.ID()] {
		if later(key, other) {
			s.end(other)
			s.correct(other, met.program)
		}
	}
}

// left tells whether a process has run another program since a subject was
// read, and ends the subject then.
func (s *subjects) left(key observe.SubjectKey, old *subject) bool {
	now, err := s.table.ProgramOf(key.ID())
	if err != nil {
		return false // it has ended, or cannot be seen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old.program == 0 || old.program == now || s.known[key] != old {
		return false
	}
	s.end(key)
	return true
}

// readAs notes which program a subject was read as, unless an exec came in
// between: then what was read is void, and the subject has ended.
func (s *subjects) readAs(key observe.SubjectKey, old *subject, program process.Program) bool {
	now, err := s.table.ProgramOf(key.ID())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] != old {
		return false
	}
	if err != nil || now == program {
		old.program = program
		return true
	}
	old.program = now
	s.end(key)
	s.correct(key, now)
	return false
}

// ended is told that a process has exited, or runs the program that the exec id
// stands for: its other programs have ended. The table of processes tells this
// only of those in scope.
func (s *subjects) ended(id model.ProcessID, running func(observe.SubjectKey) bool) {
	s.mu.Lock()
	var over []observe.SubjectKey
	for _, key := range s.byProcess[id] {
		if running(key) {
			continue
		}
		s.end(key)
		if s.known[key].program != 0 {
			over = append(over, key)
		}
	}
	s.mu.Unlock()
	if len(over) == 0 {
		return
	}
	now, err := s.table.ProgramOf(id)
	if err != nil {
		return // it has exited: there was nothing to mistake it for
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range over {
		s.correct(key, now)
	}
}

// correct takes from a program that has ended what was read of a later one. The
// caller holds the lock.
func (s *subjects) correct(key observe.SubjectKey, later process.Program) {
	old := s.known[key]
	if old == nil || old.program == 0 || old.program != later {
		return
	}
	nobody := s.departed(key, "")
	nobody.ended = old.ended
	s.known[key] = nobody
	// Observations hold on to the old one until they report.
	old.lost.Store(true)
	if old.process.Load() != nil {
		old.process.Store(s.stranger(key, ""))
	}
	old.close()
	old.space.Store(nil)
}
