// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// rescope decides again about those who are known, after observations began or ended. Who
// is not known is decided about when the kernel meets him.
func (s *subjects) rescope() {
	for key, known := range s.living() {
		p := known.process.Load()
		if p == nil {
			continue // out of the engine's own scope
		}
		if scope := s.scopeOf(p); scope != known.scope.get() {
			known.scope.set(scope)
			s.redecide(key, known)
		}
	}
}

// redecide tells the kernel of a new scope, with unwind tables where they are needed now.
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
		known.close() // it was replaced meanwhile: nobody else closes what was opened since
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

// met tells whether a program of a process is known.
func (s *subjects) met(id model.ProcessID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byProcess[id]) > 0
}
