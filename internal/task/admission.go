// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// take makes a task of the requested runs that no other task does already; it returns nil if there
// are none. If begins is set, the task has a slot and the caller must begin it.
func (m *Manager) take(r *Request, now time.Time) (e *entry, begins bool, outcomes []Outcome) {
	outcomes = make([]Outcome, len(r.Runs))
	for i := range outcomes {
		outcomes[i].Kind = r.Runs[i].Kind
	}
	refuse := func(err error) (*entry, bool, []Outcome) {
		for i := range outcomes {
			if !outcomes[i].Already {
				outcomes[i].Err = err
			}
		}
		return nil, false, outcomes
	}
	if err := r.check(m.config.Different); err != nil {
		return refuse(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return refuse(ErrClosed)
	}
	e = newEntry(r, now)
	later := e.start.After(now)
	if !later { // else who observes the same then is looked for when its turn has come
		e.runs = slices.DeleteFunc(e.runs, func(one *run) bool {
			by := m.covered(one, m.alike(one, true), r.Extend, now)
			if by != nil {
				outcomes[one.index] = by.follow(r, one)
				m.instead(r, one, by, now)
			}
			return by != nil
		})
	}
	switch {
	case len(e.runs) == 0:
		return nil, false, outcomes
	case !later && m.fits(e) && !m.anybodyDue(now):
		m.assignSlot(e)
		m.work.Add(1)
		begins = true
	case len(m.waiting) >= maxWaiting:
		m.refused++
		m.warnings.Warn(fmt.Errorf("refusing a task of %s: the queue is full, %d tasks wait", r.By, len(m.waiting)))
		return refuse(ErrFull)
	default:
		e.set(Scheduled)
		e.waited, e.queued = true, !later
		if !later {
			m.queue(e, now)
		}
		m.waiting = append(m.waiting, e)
	}
	m.tasks[e.id] = e
	for _, one := range e.runs {
		m.watch.add(one.processes)
	}
	return e, begins, outcomes
}

// fits reports whether a task may run now: there is a free slot, and capacity for what it observes.
func (m *Manager) fits(e *entry) bool {
	if m.running >= m.config.Running {
		return false
	}
	e.lacksCapacity = !m.capacity.fits(e.runs)
	return !e.lacksCapacity
}

// anybodyDue reports whether another task waits for a slot and its turn comes first. A task that
// lacks capacity for an observation of its own does not hold up one that shares a running
// observation.
func (m *Manager) anybodyDue(now time.Time) bool {
	return slices.ContainsFunc(m.waiting, func(e *entry) bool { return !e.start.After(now) && !e.lacksCapacity })
}

// assignSlot gives a task one of the slots of running tasks.
func (m *Manager) assignSlot(e *entry) {
	e.admitted = true
	m.running++
	for _, one := range e.runs {
		if one.state != Ended {
			one.state, one.starting = Started, true
			m.capacity.enter(one)
		}
	}
}

// queue has a task wait for a slot.
func (m *Manager) queue(e *entry, now time.Time) {
	e.set(Queued)
	e.waitUntil = now.Add(maxWait)
	switch {
	case m.fits(e):
	case e.lacksCapacity:
		m.warnings.Warn(fmt.Errorf("a task of %s waits: %d observations with different options run already, the maximum; "+
			"those of tasks and policies with the same options are one", e.request.By, len(m.capacity.taken)))
	default:
		m.warnings.Warn(fmt.Errorf("a task of %s waits: %d tasks run, the maximum (limits::concurrent_tasks)", e.request.By, m.running))
	}
}

// covered removes from a run the processes that other runs of the same kind observe or wait for
// already. If none is left, it returns the run that observes them then and does not change this
// one; otherwise nil.
func (m *Manager) covered(one *run, others []*run, extend bool, now time.Time) (by *run) {
	before := one.processes
	note := func(other *run) {
		by = other
		if extend && other.within(one, before) && other.extend(now, one.duration) {
			m.remember(other.of)
		}
	}
	if one.processes == nil {
		for _, other := range others {
			if one.sameTargets(other) {
				note(other)
			}
		}
	} else {
		one.processes = slices.DeleteFunc(slices.Clone(one.processes), func(p *model.Process) bool {
			for _, other := range others {
				if other.observes(p.ID) {
					note(other)
					return true
				}
			}
			return false
		})
		if len(one.processes) > 0 {
			one.name()
			return nil
		}
		one.processes = before
	}
	return by
}

// alike returns the runs of other tasks of the same kind that run or, if waiting is set, wait for a
// slot.
func (m *Manager) alike(one *run, waiting bool) []*run {
	var list []*run
	for _, e := range m.tasks {
		for _, other := range e.runs {
			if e != one.of && other.kind == one.kind && (other.state == Started || waiting && other.state == Queued) && !other.stopping && other.ending == "" {
				list = append(list, other)
			}
		}
	}
	return list
}

// admit gives slots to waiting tasks: first to those whose requester has the fewest running tasks,
// then in their order. So a requester of many tasks does not hold up another one.
func (m *Manager) admit(now time.Time) (logs []*model.Logs) {
	due := map[string][]*entry{}
	m.waiting = slices.DeleteFunc(m.waiting, func(e *entry) bool {
		switch {
		case m.tasks[e.id] == nil:
			return true // it has ended
		case m.closed || e.start.After(now):
			return false
		case e.waitUntil.IsZero():
			m.queue(e, now)
		case !now.Before(e.waitUntil):
			e.end(Expired)
			logs = append(logs, m.endRuns(e, now)...)
			return true
		}
		due[e.request.By] = append(due[e.request.By], e)
		return false
	})
	for running := m.runningBy(); len(due) > 0; {
		e := takeTurn(due, running)
		if !m.fits(e) || m.beingStarted(e) {
			// A task that waits only for the run that it follows, which is being stopped, continues at once.
			e.queued = e.queued || e.after == nil || e.after.state == Ended
			continue
		}
		m.waiting = slices.DeleteFunc(m.waiting, func(other *entry) bool { return other == e })
		if holds := e.request.Holds; holds != nil && e.queued && !holds() {
			e.end(Recovered)
			logs = append(logs, m.endRuns(e, now)...)
			continue
		}
		logs = append(logs, m.letIn(e, now)...)
		if e.admitted {
			running[e.request.By]++
		}
	}
	return logs
}

// takeTurn takes whose turn it is out of those who wait, by who has asked for them.
func takeTurn(due map[string][]*entry, running map[string]int) *entry {
	var next *entry
	for by, list := range due {
		if next == nil || running[by] < running[next.request.By] || running[by] == running[next.request.By] && list[0].asked.Before(next.asked) {
			next = list[0]
		}
	}
	by := next.request.By
	if due[by] = due[by][1:]; len(due[by]) == 0 {
		delete(due, by)
	}
	return next
}

// runningBy is the number of tasks that have a slot, by requester.
func (m *Manager) runningBy() map[string]int {
	running := map[string]int{}
	for _, e := range m.tasks {
		if e.admitted {
			running[e.request.By]++
		}
	}
	return running
}

// beingStarted reports whether others start right now what a task is to observe: whether they do
// it is known when they have.
func (m *Manager) beingStarted(e *entry) bool {
	return slices.ContainsFunc(e.runs, func(one *run) bool {
		return one.state != Ended && slices.ContainsFunc(m.alike(one, false), func(other *run) bool {
			return other.starting && (one.sameTargets(other) || slices.ContainsFunc(one.processes, func(p *model.Process) bool { return other.observes(p.ID) }))
		})
	})
}

// letIn begins a task that has waited, but for those of its runs that another task has
// taken over meanwhile.
func (m *Manager) letIn(e *entry, now time.Time) (logs []*model.Logs) {
	for _, one := range e.runs {
		if one.state == Ended {
			continue
		}
		before := one.processes
		if by := m.covered(one, m.alike(one, false), e.request.Extend, now); by != nil {
			m.instead(&e.request, one, by, now)
			logs = append(logs, m.followersStarted(one, by, now)...)
			logs = append(logs, m.over(one, Covered, now))
			continue
		}
		m.watch.add(one.processes)
		m.watch.remove(before)
	}
	if e.ended() {
		m.settle(e)
		return logs
	}
	m.assignSlot(e)
	m.work.Go(func() { m.emit(m.begin(e)) })
	return logs
}
