// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// start starts tasks until the context ends.
func (p *policies) start(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.fired:
		}
		for t, ok := p.nextTrigger(); ok && ctx.Err() == nil; t, ok = p.nextTrigger() {
			p.trigger(t)
		}
	}
}

func (p *policies) nextTrigger() (policy.Trigger, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.triggers) == 0 {
		return policy.Trigger{}, false
	}
	t := p.triggers[0]
	p.triggers[0] = policy.Trigger{}
	if p.triggers = p.triggers[1:]; len(p.triggers) > 0 {
		rouse(p.fired) // another one may help
	}
	return t, true
}

// trigger starts what a policy runs, and reports the outcome to the watch.
func (p *policies) trigger(t policy.Trigger) {
	entry, ok := p.entry(t.Policy.Name)
	if !ok {
		return // it was replaced
	}
	id := t.Process.ID
	var reported atomic.Bool
	reported.Store(t.Reported)
	started := func() { p.watch.Started(t.Policy.Name, id, p.clock.boot()) }
	failed := func(why error) {
		p.watch.Failed(t.Policy.Name, id, p.clock.boot(), reported.Load())
		p.warnings.Warn(fmt.Errorf("policy %s holds for process %d (%s), and nothing could be started: %w", t.Policy.Name, id.PID, t.Process.ServiceName, why))
	}
	runs := p.runs(entry.Runs, t.Process)
	waiting := &waitingRuns{runs: len(runs), answered: map[string]bool{}, started: started, failed: failed}
	outcomes := p.ask(task.Request{
		Name: t.Policy.Name, By: "policy:" + t.Policy.Name, Causes: t.Causes, Reported: t.Reported, Runs: runs, Processes: []*model.Process{t.Process}, Duration: entry.Duration,
		Started: waiting.start, Failed: waiting.fail, Holds: func() bool { return p.watch.Holds(t.Policy.Name, id) },
		// One that is about to end would show almost nothing before a silence of minutes.
		Extend: true,
	})
	reported.Store(t.Reported || task.AllRefused(outcomes))
	if len(outcomes) == 0 { // no pipeline takes what they make, which was logged at the start
		started()
	}
	for _, o := range outcomes {
		switch {
		case o.Err != nil:
			waiting.fail(o.Kind, o.Err)
		case o.State == task.Started, o.State == task.Ended: // by now; one that never got its turn was reported as failed
			waiting.start(o.Kind)
		}
	}
	p.logger.Debug("A policy holds", zap.String("policy", t.Policy.Name), zap.Uint32("pid", id.PID))
}

// waitingRuns reports the outcome of the runs of a trigger once: that one has started, or that
// none will. Of each kind the first outcome counts.
type waitingRuns struct {
	runs    int
	started func()
	failed  func(error)

	mu       sync.Mutex // all below
	answered map[string]bool
	done     bool
}

func (w *waitingRuns) start(kind string) {
	if w.note(kind, true) {
		w.started()
	}
}

func (w *waitingRuns) fail(kind string, why error) {
	if w.note(kind, false) {
		w.failed(why)
	}
}

// note records an outcome, and reports whether it decides that of all.
func (w *waitingRuns) note(kind string, started bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || w.answered[kind] {
		return false
	}
	w.answered[kind] = true
	w.done = started || len(w.answered) >= w.runs
	return w.done
}

func (p *policies) entry(name string) (policyEntry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.entries, func(e policyEntry) bool { return e.Name == name })
	if i < 0 {
		return policyEntry{}, false
	}
	return p.entries[i], true
}

// RestoreSilence restores the silence period of a policy that a previous engine has started something of for
// a process, so that it lasts over a restart of the Collector.
func (e *Engine) RestoreSilence(policy string, id model.ProcessID, began time.Time) {
	if p := e.policies; p != nil {
		now := p.clock.now()
		p.watch.RestoreSilence(policy, id, now.boot-max(0, now.wall.Sub(began)))
	}
}

// Resume starts again what policies of a previous engine had started and what did not end: for the rest of
// its time, for the processes that still run, if the policies still exist and match them. Their
// silence periods go on, too, so that they do not trigger for it. It returns what is left if the receiver
// stops before all has started.
func (e *Engine) Resume(unfinished []task.Request) (left []task.Request) {
	if e.policies == nil {
		return nil
	}
	for i := range unfinished {
		if !e.policies.resume(unfinished[i]) {
			left = append(left, unfinished[i])
		}
	}
	return left
}

// resume returns false if the receiver stops.
func (p *policies) resume(r task.Request) bool {
	entry, ok := p.entry(r.Name)
	if !ok {
		return true
	}
	known, err := p.livingOf(r.Processes[:1], &entry)
	if known == nil { // an instance is observed further without the process for which it was started
		r.Runs = slices.DeleteFunc(slices.Clone(r.Runs), func(run task.Run) bool { return !run.Instance })
	}
	for i := 0; known == nil && i < len(r.Runs); i++ {
		var failed error
		known, failed = p.livingOf(r.Runs[i].Processes, &entry)
		err = errors.Join(err, failed)
	}
	if known == nil {
		if err != nil {
			p.warnings.Warn(fmt.Errorf("what policy %s had started does not go on: %w", r.Name, err))
		}
		return true
	}
	runs := restOf(entry.Policy, r.Runs)
	if len(runs) == 0 {
		return true
	}
	r.Runs, r.Processes, r.Duration = p.runs(runs, known), []*model.Process{known}, entry.Duration
	r.Holds = func() bool { return p.watch.Holds(r.Name, known.ID) }
	for _, o := range p.ask(r) {
		switch {
		case errors.Is(o.Err, task.ErrClosed):
			return false
		case o.Err != nil:
			p.warnings.Warn(fmt.Errorf("%s, which policy %s had started for process %d (%s), does not go on: %w", o.Kind, r.Name, known.ID.PID, known.ServiceName, o.Err))
		}
	}
	return true
}

// restOf are the runs of a policy as it is now for what is left of those that have begun, each at most as
// long as it would run.
func restOf(of Policy, left []task.Run) (runs []task.Run) {
	for _, run := range of.Runs {
		i := slices.IndexFunc(left, func(before task.Run) bool { return before.Kind == run.Kind })
		if i < 0 {
			continue
		}
		longest := of.Duration
		if run.Duration > 0 {
			longest = run.Duration
		}
		run.Duration = min(left[i].Duration, longest)
		runs = append(runs, run)
	}
	return runs
}

// livingOf is the first of the processes that still runs and that the policy matches, nil if there is none.
// The error names those that could not be looked up.
func (p *policies) livingOf(processes []*model.Process, entry *policyEntry) (_ *model.Process, err error) {
	for _, was := range processes {
		known, inScope, failed := p.table.Lookup(was.ID)
		switch {
		case failed == nil && inScope && p.table.Matches(entry.targets, known):
			return known, nil
		case failed != nil && !errors.Is(failed, process.ErrGone):
			err = errors.Join(err, failed)
		}
	}
	return nil, err
}

// runs are those of a policy for a process, those first that load fast. Some
// kinds observe the whole service instance.
func (p *policies) runs(runs []task.Run, of *model.Process) []task.Run {
	runs = slices.Clone(runs)
	for i := range runs {
		if kindIs(observe.Kind(runs[i].Kind), func(d *observe.Descriptor) bool { return d.WholeInstance }) {
			runs[i].Processes, runs[i].Instance = p.table.Instance(of), true
		}
	}
	slow := func(r task.Run) bool {
		return kindIs(observe.Kind(r.Kind), func(d *observe.Descriptor) bool { return d.LoadsSlowly })
	}
	return append(slices.DeleteFunc(slices.Clone(runs), slow), slices.DeleteFunc(runs, func(r task.Run) bool { return !slow(r) })...)
}
