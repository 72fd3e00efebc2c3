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

// readTries is how often a process is read that runs another program meanwhile.
const readTries = 3

// read finds out about a process; where it has ended already, what the kernel
// and its parent told of it has to do.
func (s *subjects) read(key observe.SubjectKey, comm string) *subject {
	for range readTries {
		met := s.readOnce(key, comm)
		if met.process.Load() == nil || met.ended > 0 {
			return met
		}
		if now, err := s.table.ProgramOf(key.ID()); err != nil || now == met.program {
			return met
		}
		met.close() // some of it may be of another program
	}
	return s.departed(key, comm)
}

func (s *subjects) readOnce(key observe.SubjectKey, comm string) *subject {
	known, inScope, program, err := s.table.LookupProgram(key.ID())
	if err != nil {
		met := s.departed(key, comm)
		met.lost.Store(errors.Is(err, process.ErrGone))
		return met
	}
	met := s.subject()
	if !inScope {
		return met
	}
	met.process.Store(known)
	met.program = program
	met.scope.set(s.scopeOf(known))
	if met.scope.get() == lifecycle.ScopeNone || known.KernelThread {
		return met
	}
	err = s.open(met, key.ID())
	switch {
	case met.lost.Load():
		s.inherit(met, key)
	case err != nil:
		s.logger.Debug("Reading the mappings of a process", zap.Uint32("pid", key.PID), zap.Error(err))
	}
	return met
}

// inherit gives a process that was over before its mappings could be read those of
// the process that it was forked from, if that was met while it ran the same program.
func (s *subjects) inherit(met *subject, key observe.SubjectKey) {
	parent, known := s.table.ForkedFrom(key.ID())
	if !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.byProcess[parent] {
		if space := s.known[other].space.Load(); space != nil && other.ExecID == key.ExecID {
			if forked, err := space.Fork(); err == nil { // else it is closed: nothing is known then, as before
				met.space.Store(forked)
				met.lost.Store(false)
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
func (s *subjects) open(met *subject, id model.ProcessID) error {
	if met.scope.get()&s.stacks() == lifecycle.ScopeNone {
		return nil
	}
	space, err := s.symbols.Open(id)
	met.lost.Store(errors.Is(err, symbol.ErrProcessExited))
	if err == nil && !met.space.CompareAndSwap(nil, space) {
		space.Close() // another goroutine was faster
	}
	return err
}

// stranger describes a process of which nothing is known but what the kernel
// said. That it may be in a container with others cannot be seen any more, so
// its service.instance.id is its own.
func (s *subjects) stranger(key observe.SubjectKey, comm string) *model.Process {
	p := &model.Process{
		ID: key.ID(), Comm: comm,
		ServiceName: unknownService, ServiceInstanceID: s.table.InstanceOf(key.ID()),
	}
	if comm != "" {
		p.ServiceName += ":" + comm
	}
	if boot, err := s.boot(); err == nil {
		p.CreationTime = boot.Add(time.Duration(key.StartBoottime))
	}
	return p
}

// departed stands for a program that was over before it could be read: whether
// it was in scope is known where everything is.
func (s *subjects) departed(key observe.SubjectKey, comm string) *subject {
	met := s.subject()
	met.lost.Store(true)
	met.ended = drainsAfterEnd
	if !s.table.MatchesAll() {
		s.undecided.Add(1)
		met.undecided = true
		return met
	}
	stranger := s.stranger(key, comm)
	met.process.Store(stranger)
	met.scope.set(s.scopeOf(stranger))
	return met
}
