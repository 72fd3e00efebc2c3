// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// rescope decides again whether the known processes are in scope of an observation,
// which has begun or ended, or whose targets have changed.
func (s *subjects) rescope(of lifecycle.Scope) {
	for key, known := range s.living() {
		s.decideAgain(key, known, of)
	}
}

// describe decides again about a process that runs the same program as before, and that
// selectors may match now which did not.
func (s *subjects) describe(id model.ProcessID) {
	programs := s.livingOf(id)
	if len(programs) == 0 {
		return
	}
	p, inScope, err := s.table.Lookup(id)
	if err != nil || !inScope {
		return // the next change reports it
	}
	for key, known := range programs {
		if known.process.Load() != nil {
			known.process.Store(p)
			s.decideAgain(key, known, ^lifecycle.ScopeNone)
		}
	}
}

// decideAgain decides about one program for some observations. Several may begin at once:
// each decides for itself alone.
func (s *subjects) decideAgain(key observe.SubjectKey, known *subject, of lifecycle.Scope) {
	p := known.process.Load()
	if p == nil {
		return // out of the engine's own scope
	}
	if s.move(known, p, of) {
		s.redecide(key, known)
	}
}

// move sets the scope of a program, and reports whether it was another one.
func (s *subjects) move(known *subject, p *model.Process, of lifecycle.Scope) bool {
	s.moving.Lock()
	defer s.moving.Unlock()
	before := known.scope.get()
	after := before&^of | s.scopeOf(p)&of
	known.scope.set(after)
	return after != before
}

// redecide sends the kernel a new scope, with unwind tables where they are needed now.
func (s *subjects) redecide(key observe.SubjectKey, known *subject) {
	if known.space.Load() == nil && !known.process.Load().KernelThread {
		if err := s.open(known, key.ID()); err != nil {
			s.logger.Debug("Reading the mappings of a process", zap.Uint32("pid", key.PID), zap.Error(err))
		}
	}
	publish := func() { s.publish(key, known) }
	if space := known.space.Load(); space != nil && s.unwinding != nil && known.scope.get()&s.stacks() != 0 {
		s.unwinding.want(key, known, space, publish)
	} else {
		publish()
	}
	if s.find(key) != known {
		known.close() // it was replaced in between: no other goroutine closes what was opened since
	}
}

// living are the programs that run.
func (s *subjects) living() map[observe.SubjectKey]*subject {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[observe.SubjectKey]*subject, len(s.known))
	for key, known := range s.known {
		if known.ended == 0 {
			list[key] = known
		}
	}
	return list
}

// livingOf are those of one process.
func (s *subjects) livingOf(id model.ProcessID) map[observe.SubjectKey]*subject {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[observe.SubjectKey]*subject{}
	for _, key := range s.byProcess[id] {
		if known := s.known[key]; known.ended == 0 {
			list[key] = known
		}
	}
	return list
}

// discovered reports whether a program of a process is known.
func (s *subjects) discovered(id model.ProcessID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byProcess[id]) > 0
}
