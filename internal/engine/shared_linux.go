// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// shared is an observation that runs for tasks: all that want the same share it, so that
// ten profiles cost one timer on each CPU. What it finds is exported for the task whose process
// it was found of, the oldest if there are several, and for no other.
type shared struct {
	plan  observe.Plan
	scope lifecycle.Scope
	// claims is how many runs share it or wait to; the lock of demand guards it.
	claims int
	// socketShare is its share of socketShares, 0 where it needs none; the lock of demand guards it.
	socketShare uint64

	// mu is held while it is started and ended, and while runs come and go.
	mu sync.Mutex
	// running is nil before it has been started and once it is being ended.
	running *running
	// runs are the tasks' runs, oldest first. The list is replaced, not changed: it is read
	// under locks of others.
	runs atomic.Pointer[[]*taskRun]
}

// taskRun is one task's part of it.
type taskRun struct {
	engine *Engine
	shared *shared
	// running is what shared runs for it.
	running *running
	id      string
	// processes are observed, and where instance is set all of its service instance; or those
	// that targets match.
	processes map[model.ProcessID]bool
	instance  *model.Process
	targets   *process.Narrowing
	// exported counts what was exported for it, lostBefore what was lost before it began.
	exported   atomic.Uint64
	lostBefore uint64
}

func (s *shared) list() []*taskRun {
	if runs := s.runs.Load(); runs != nil {
		return *runs
	}
	return nil
}

// add and remove are called by one goroutine at a time.
func (s *shared) add(r *taskRun) {
	runs := append(slices.Clone(s.list()), r)
	s.runs.Store(&runs)
}

// remove reports whether any run is left.
func (s *shared) remove(r *taskRun) bool {
	runs := slices.DeleteFunc(slices.Clone(s.list()), func(o *taskRun) bool { return o == r })
	s.runs.Store(&runs)
	return len(runs) > 0
}

// covers reports whether a process in scope is observed for any task.
func (s *shared) covers(p *model.Process) bool { return s.of(p) != nil }

// of is the run that observes a process; nil if none does, and for the host.
func (s *shared) of(p *model.Process) *taskRun {
	if p == nil {
		return nil
	}
	for _, r := range s.list() {
		if r.covers(p) {
			return r
		}
	}
	return nil
}

func (r *taskRun) covers(p *model.Process) bool {
	if r.targets != nil {
		return r.engine.table.Matches(r.targets, p)
	}
	return r.processes[p.ID] || r.instance != nil && process.SameInstance(p, r.instance)
}

// Covers implements [task.Observation].
func (r *taskRun) Covers(id model.ProcessID) bool {
	if r.processes[id] {
		return true
	}
	if r.targets == nil && r.instance == nil {
		return false
	}
	p, inScope, err := r.engine.table.Lookup(id)
	return err == nil && inScope && p != nil && r.covers(p)
}

// Living implements [task.Observation].
func (r *taskRun) Living() []*model.Process {
	if r.instance == nil {
		return nil
	}
	return r.engine.table.Living(r.instance)
}

// known reports whether all of its processes were discovered already.
func (r *taskRun) known() bool {
	for id := range r.processes {
		if !r.engine.subjects.discovered(id) {
			return false
		}
	}
	return r.targets == nil
}

func (r *taskRun) release() {
	if r.targets != nil {
		r.engine.table.Release(r.targets)
	}
}

// label adds the task to what was found. A nil shared belongs to no task.
func (s *shared) label(found model.Findings) model.Findings {
	found.Profiles = labelled(s, found.Profiles, func(p *model.Profile) *model.Process { return p.Process }, func(p *model.Profile, id string) uint64 {
		p.TaskID = id
		return observations(p)
	})
	found.Metrics = labelled(s, found.Metrics, func(m *model.Metrics) *model.Process { return m.Process }, func(m *model.Metrics, id string) uint64 {
		m.TaskID = id
		points := 0
		for i := range m.Metrics {
			points += len(m.Metrics[i].Points)
		}
		return uint64(points)
	})
	found.Logs = s.logs(found.Logs)
	return found
}

func (s *shared) logs(logs []*model.Logs) []*model.Logs {
	return labelled(s, logs, func(l *model.Logs) *model.Process { return l.Process }, func(l *model.Logs, id string) uint64 {
		for i := range l.Logs {
			moved := append(slices.Clip(l.Logs[i].Attributes), model.Text(task.IDKey, id))
			if l.Logs[i].Attributes = moved; l.Bytes > 0 {
				l.Bytes += uint64(cap(moved)) * uint64(unsafe.Sizeof(model.Attribute{}))
			}
		}
		return uint64(len(l.Logs))
	})
}

func (s *shared) spans(spans []*model.Spans) []*model.Spans {
	return labelled(s, spans, func(of *model.Spans) *model.Process { return of.Process }, func(of *model.Spans, id string) uint64 {
		for i := range of.Spans {
			of.Spans[i].Attributes = append(slices.Clip(of.Spans[i].Attributes), model.Text(task.IDKey, id))
		}
		return uint64(len(of.Spans))
	})
}

// labelled drops what was found of processes that no task observes. It has label add the task to the rest, and counts the
// amounts that label returns.
func labelled[T any](s *shared, found []T, process func(T) *model.Process, label func(of T, id string) uint64) []T {
	if s == nil {
		return found
	}
	return slices.DeleteFunc(found, func(one T) bool {
		r := s.of(process(one))
		if r == nil {
			return true
		}
		r.exported.Add(label(one, r.id))
		return false
	})
}

// observations is how many a profile has: by their count where it has one.
func observations(p *model.Profile) uint64 {
	column := slices.IndexFunc(p.SampleTypes, func(t model.ValueType) bool { return t.Unit == "count" })
	if column < 0 {
		return uint64(len(p.Samples))
	}
	var n uint64
	for i := range p.Samples {
		n += uint64(max(p.Samples[i].Values[column], 0))
	}
	return n
}
