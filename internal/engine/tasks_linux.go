// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// discoverTask bounds how long a task waits before it samples, for running processes to be
// discovered. A first stack without tables is better than one that comes late.
const discoverTask = 100 * time.Millisecond

// errStopped is the error of an engine that has stopped, or that was not configured to take tasks.
var errStopped = errors.New("the engine does not take tasks")

var _ task.Starter = (*Engine)(nil)

// Start implements [task.Starter]: it observes processes for a task, in addition to what is
// observed anyway.
func (e *Engine) Start(spec task.Spec) (_ task.Observation, err error) {
	plan, ok := spec.Options.(observe.Plan)
	if !ok {
		return nil, fmt.Errorf("these are no options of an observation: %T", spec.Options)
	}
	e.demand.use.RLock()
	defer e.demand.use.RUnlock()
	if e.demand.closed || !e.config.OnDemand {
		return nil, errStopped
	}
	run := &taskRun{engine: e, id: spec.TaskID}
	if err := run.selectProcesses(spec); err != nil {
		return nil, err
	}
	e.work.run(func() { err = e.join(run, observe.Untargeted(plan)) })
	if err != nil {
		run.release()
		return nil, err
	}
	return run, nil
}

// join has a task's run share the observation with its plan, which is started where
// there is none.
func (e *Engine) join(run *taskRun, plan observe.Plan) error {
	s, err := e.demand.claim(plan)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run.shared = s
	if s.running != nil {
		return e.joinRunning(s, run)
	}
	s.add(run)
	e.subjects.addKind(kindTargets{scope: s.scope, stacks: takesStacks(plan), matches: s.covers})
	if err := e.startShared(s, run); err != nil {
		s.remove(run)
		return errors.Join(err, e.vacate(s))
	}
	return nil
}

func (e *Engine) joinRunning(s *shared, run *taskRun) error {
	run.running, run.lostBefore = s.running, lost(s.running)
	s.add(run)
	e.subjects.rescope(s.scope)
	e.readStarted(s.plan)
	e.introduce(s.running)
	// Programs remember for an epoch which processes are out of scope: a drain ends it.
	return e.inLoop(func() error { return s.running.Drain() })
}

// startShared starts the observation for its first run.
func (e *Engine) startShared(s *shared, run *taskRun) (err error) {
	if followsMappings(s.plan) {
		if err := e.mapForTasks(); err != nil {
			return err
		}
	}
	e.subjects.rescope(s.scope)
	e.readStarted(s.plan)
	started, err := e.startPlan(s.plan, provision{
		loader:     e.loader().Observing(uint32(s.scope)),
		scope:      s.scope,
		tableBytes: e.config.MemoryBytes / mapShare / 2 / TaskObservations, sampleBytes: e.config.MemoryBytes / sampleShare / 2 / TaskObservations,
		memoryBytes: e.sharedSocketMemory(s),
	})
	if err != nil {
		return err
	}
	started.tasks = s
	if started.begin != nil {
		discover := discoverTask
		if run.known() {
			discover = 0
		}
		err = started.begin(discover)
	}
	if err == nil {
		s.running, run.running = started, started
		err = e.inLoop(func() error { return e.take(started) })
	}
	if err != nil {
		s.running = nil
		return errors.Join(err, started.Close())
	}
	e.logStart(started, " for tasks")
	return nil
}

// take has an observation drained and reported from now on. It runs in the goroutine that
// does.
func (e *Engine) take(started *running) error {
	if level := e.governor.level(started.kind); level > 0 {
		if reducer, ok := started.Observation.(observe.Reducer); ok {
			if err := reducer.SetLevel(level); err != nil {
				return err
			}
		}
	}
	started.due(time.Now())
	e.mu.Lock()
	e.running = append(slices.Clip(e.running), started)
	e.mu.Unlock()
	e.noteFollowers()
	e.introduce(started)
	e.noteLeftOut(started)
	return nil
}

// leave is the opposite of take. What the observation has come to is kept.
func (e *Engine) leave(ended *running) {
	e.mu.Lock()
	e.past.add(ended)
	e.running = slices.DeleteFunc(slices.Clone(e.running), func(o *running) bool { return o == ended })
	e.mu.Unlock()
	e.noteFollowers()
}

// inLoop calls a function in the goroutine that drains and reports.
func (e *Engine) inLoop(call func() error) (err error) {
	done := make(chan struct{})
	select {
	case e.calls <- func() { err = call(); close(done) }:
		<-done
		return err
	case <-e.looping:
		return errStopped
	}
}

// readStarted has the processes read that started lately, which otherwise happens at their first sample: unwind tables would come
// too late for it.
func (e *Engine) readStarted(plan observe.Plan) {
	if !followsMappings(plan) {
		return
	}
	if err := e.tracker.Flush(); err != nil {
		e.logger.Debug("Flushing process events", zap.Error(err))
	}
}

// mapForTasks follows which processes map code while tasks need it, unless the configuration needs it anyway.
func (e *Engine) mapForTasks() error {
	e.demand.mapping.Lock()
	defer e.demand.mapping.Unlock()
	if e.mappings.Load() != nil {
		return nil
	}
	if err := e.startMappings(); err != nil {
		return err
	}
	watch := e.mappings.Load()
	if watch == nil {
		return nil // it cannot be followed here, which was logged
	}
	done := make(chan struct{})
	e.demand.mapped = done
	e.ended.Go(func() {
		defer close(done)
		e.followMappings(watch)
	})
	e.mappedAll() // no event reported what they did in between
	return nil
}

// unmapForTasks stops following when no observation needs it any more.
func (e *Engine) unmapForTasks() error {
	e.demand.mapping.Lock()
	defer e.demand.mapping.Unlock()
	if e.demand.mapped == nil || e.demand.anyShared(followsMappings) {
		return nil
	}
	watch := e.mappings.Swap(nil)
	err := watch.Stop()
	<-e.demand.mapped
	e.demand.mapped = nil
	// The goroutine that drains may be at it, since CPUs came or went.
	return errors.Join(err, e.inLoop(func() error { return watch.Close() }))
}

// lost is how many events an observation could not keep.
func lost(o *running) uint64 {
	var n uint64
	for _, loss := range o.Losses() {
		if !loss.Incomplete {
			n += loss.Count
		}
	}
	return n
}

// Stop implements [task.Observation].
func (r *taskRun) Stop() (task.Counts, error) {
	e, s := r.engine, r.shared
	var errs []error
	note := func(err error) {
		if !errors.Is(err, errStopped) { // Shutdown does it all by itself
			errs = append(errs, err)
		}
	}
	note(e.inLoop(func() error {
		defer e.narrate(r.running)
		return r.running.Drain()
	}))
	if takesStacks(s.plan) {
		e.symbols.AwaitLines(lastLines)
	}
	e.demand.use.RLock()
	defer e.demand.use.RUnlock()
	counts := task.Counts{}
	note(e.inLoop(func() error {
		now := time.Now()
		e.report(r.running, now)
		e.narrate(r.running)
		r.running.reportDue = now.Add(r.running.reportInterval)
		counts.Losses = lost(r.running) - r.lostBefore
		return nil
	}))
	counts.Samples = r.exported.Load()
	if e.demand.closed {
		return counts, errors.Join(errs...)
	}
	e.work.run(func() { note(e.part(r)) })
	return counts, errors.Join(errs...)
}

// FirstSample is when the observation has seen the first event, in nanoseconds of
// CLOCK_MONOTONIC, as far as it was read; 0 where there was none, or it notes no times.
func (r *taskRun) FirstSample() uint64 {
	if timed, ok := r.running.Observation.(observe.Timed); ok {
		return timed.FirstSample()
	}
	return 0
}

// Identify returns the process that has a pid now, if it is in scope.
func (e *Engine) Identify(pid uint32) (*model.Process, error) {
	p, inScope, err := e.table.LookupPID(pid)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking up process %d: %w", pid, err)
	case !inScope || p == nil:
		return nil, fmt.Errorf("process %d is not in scope of targets", pid)
	}
	return p, nil
}

// part takes a task's run out of what it shares, and ends that with the last one.
func (e *Engine) part(r *taskRun) error {
	s := r.shared
	defer r.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.remove(r); left {
		e.subjects.rescope(s.scope)
		e.introduce(s.running)
		e.demand.giveUp(s)
		return nil
	}
	ended := s.running
	s.running = nil
	return errors.Join(e.inLoop(func() error { e.leave(ended); return nil }), e.vacate(s, ended))
}

// vacate ends an observation that no task shares any more, and frees its slot unless a task waits for it.
// The caller holds the lock of s.
func (e *Engine) vacate(s *shared, ended ...*running) error {
	e.subjects.removeKind(s.scope)
	e.subjects.rescope(s.scope)
	var errs []error
	for _, o := range ended {
		errs = append(errs, o.Close())
	}
	e.demand.giveUp(s)
	return errors.Join(append(errs, e.unmapForTasks())...)
}

// selectProcesses selects the processes to observe: those that are in scope and have not exited.
func (r *taskRun) selectProcesses(spec task.Spec) error {
	table := r.engine.table
	if len(spec.Processes) == 0 {
		narrowed, err := table.Narrow("targets", spec.Targets)
		r.targets = narrowed
		return err
	}
	r.processes = map[model.ProcessID]bool{}
	processes := spec.Processes
	if spec.Instance {
		r.instance = processes[0]
		processes = append(slices.Clone(processes), table.Instance(r.instance)...) // some may have joined since
	}
	var why error
	for _, p := range processes {
		switch _, inScope, err := table.Lookup(p.ID); {
		case errors.Is(err, process.ErrGone):
			why = fmt.Errorf("process %d has ended", p.ID.PID)
			if r.engine.hooks.Exited != nil {
				r.engine.hooks.Exited(p.ID)
			}
		case err != nil:
			why = fmt.Errorf("looking up process %d: %w", p.ID.PID, err)
		case !inScope:
			why = fmt.Errorf("process %d is not in scope of targets", p.ID.PID)
		default:
			r.processes[p.ID] = true
		}
	}
	if len(r.processes) == 0 {
		return why
	}
	return nil
}
