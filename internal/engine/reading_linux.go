// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// unknownService begins the name of a service that nothing names.
const unknownService = "unknown_service"

// readTries is how often a process is read that executes another program at the same time.
const readTries = 3

// read reads a process. If it has exited already, it is described by what the kernel
// and its parent reported of it.
func (s *subjects) read(key observe.SubjectKey, comm string) *subject {
	for range readTries {
		discovered := s.readOnce(key, comm)
		if discovered.process.Load() == nil || discovered.ended > 0 {
			return discovered
		}
		if now, err := s.table.ProgramOf(key.ID()); err != nil || now == discovered.program {
			return discovered
		}
		discovered.close() // some of it may be of another program
	}
	return s.departed(key, comm)
}

func (s *subjects) readOnce(key observe.SubjectKey, comm string) *subject {
	known, inScope, program, err := s.table.LookupProgram(key.ID(), key.ExecID)
	if err != nil {
		discovered := s.departed(key, comm)
		discovered.lost.Store(errors.Is(err, process.ErrGone))
		return discovered
	}
	discovered := s.subject()
	if !inScope {
		return discovered
	}
	discovered.process.Store(known)
	discovered.program = program
	discovered.scope.set(s.scopeOf(known))
	if discovered.scope.get() == lifecycle.ScopeNone || known.KernelThread {
		return discovered
	}
	err = s.open(discovered, key.ID())
	switch {
	case discovered.lost.Load():
		s.inherit(discovered, key)
	case err != nil:
		s.logger.Debug("Reading the mappings of a process", zap.Uint32("pid", key.PID), zap.Error(err))
	}
	return discovered
}

// inherit gives a process that was over before its mappings could be read those of
// the process that it was forked from, if that was discovered while it ran the same program.
func (s *subjects) inherit(discovered *subject, key observe.SubjectKey) {
	parent, known := s.table.ForkedFrom(key.ID())
	if !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.byProcess[parent] {
		if space := s.known[other].space.Load(); space != nil && other.ExecID == key.ExecID {
			if forked, err := space.Fork(); err == nil { // else it is closed: nothing is known then, as before
				discovered.space.Store(forked)
				discovered.lost.Store(false)
			}
			return
		}
	}
}

// subject makes one of which nothing is known.
func (s *subjects) subject() *subject {
	return &subject{unnamed: &s.unnamed, unread: &s.unread, notCode: &s.notCode, tables: tables{of: s.unwinding}}
}

// open reads the mappings of the program that the process runs now, if its user stacks
// are taken.
func (s *subjects) open(discovered *subject, id model.ProcessID) error {
	if discovered.scope.get()&s.stacks() == lifecycle.ScopeNone {
		return nil
	}
	space, err := s.symbols.Open(id)
	discovered.lost.Store(errors.Is(err, symbol.ErrProcessExited))
	if err == nil && !discovered.space.CompareAndSwap(nil, space) {
		space.Close() // another goroutine was faster
	}
	return err
}

// describeExited describes a process that exited before it could be read: by what was read of its program or, if it is a fork, of the parent's
// program. Otherwise it is described by the kernel's event and how its program was started: then its container is not known.
func (s *subjects) describeExited(key observe.SubjectKey, comm string) *model.Process {
	p := &model.Process{ID: key.ID(), Comm: comm}
	s.table.Describe(p, key.ExecID)
	if boot, err := s.boot(); err == nil {
		p.CreationTime = boot.Add(time.Duration(key.StartBoottime))
	}
	return p
}

// departed stands for a program that was over before it could be read and of which no event says enough to decide about it: whether it was
// in scope is known where everything is.
func (s *subjects) departed(key observe.SubjectKey, comm string) *subject {
	discovered := s.subject()
	discovered.lost.Store(true)
	discovered.ended = drainsAfterEnd
	if !s.table.MatchesAll() {
		discovered.undecided = true
		return discovered
	}
	exited := s.describeExited(key, comm)
	discovered.process.Store(exited)
	discovered.scope.set(s.scopeOf(exited))
	return discovered
}
