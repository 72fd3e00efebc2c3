// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// A process is read some time after the kernel has discovered one of its programs, and
// /proc only shows the one that it runs then. What is read is of the program
// that was discovered or of a later one, never of an earlier. The following functions prevent
// that what was read of a later one is attributed to the one that was discovered.

// superseded reports whether a process is known to have run another program since.
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

// later reports whether the first of two programs of one process came after the second.
func later(a, b observe.SubjectKey) bool { return int32(a.ExecID-b.ExecID) > 0 }

// supersede ends the programs that a process ran before one that was discovered. The
// caller holds the lock.
func (s *subjects) supersede(key observe.SubjectKey, discovered *subject) {
	for _, other := range s.byProcess[key.ID()] {
		if later(key, other) {
			s.end(other)
			s.correct(other, discovered.program)
		}
	}
}

// left reports whether a process has run another program since a subject was
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

// ended is called when a process has exited or runs another program: those of its programs
// that running does not match have ended. The table of processes reports this
// only of processes in scope.
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
	unknown := s.departed(key, "")
	unknown.ended = old.ended
	s.known[key] = unknown
	// Observations hold on to the old one until they report.
	old.lost.Store(true)
	if old.process.Load() != nil {
		old.process.Store(s.describeExited(key, ""))
	}
	old.close()
	old.space.Store(nil)
}
