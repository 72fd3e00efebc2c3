// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// longestSleep is how long the manager sleeps at most: a start is on the wall clock,
	// which may be set meanwhile.
	longestSleep = time.Minute
	// saveAfter is how long changes of the history are gathered before they are saved,
	// saveWithin how long saving may take.
	saveAfter, saveWithin = time.Second, 5 * time.Second
)

// run does what is due until the context ends.
func (m *Manager) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
		timer.Reset(m.advance(time.Now()))
	}
}

// advance ends what is over, begins what is due, and returns how long nothing will be.
func (m *Manager) advance(now time.Time) time.Duration {
	var logs []*model.Logs
	m.lockAndLeave(m.watch.take())
	for _, e := range m.tasks {
		logs = append(logs, m.endRuns(e, now)...)
	}
	logs = append(logs, m.admit(now)...)
	sleep := m.sleep(now)
	m.mu.Unlock()
	m.emit(logs)
	return sleep
}

// lockAndLeave removes exited processes from all runs, and ends the runs that have none left. It
// returns with the lock held.
func (m *Manager) lockAndLeave(gone map[model.ProcessID]bool) {
	m.mu.Lock()
	if len(gone) == 0 {
		return
	}
	living := map[*run][]*model.Process{}
	for asked := m.unasked(gone, living); len(asked) > 0; asked = m.unasked(gone, living) {
		m.mu.Unlock() // processes may be read for it
		for one, observation := range asked {
			living[one] = observation.Living()
		}
		m.mu.Lock()
	}
	m.leave(gone, living)
}

// unasked returns the runs of instances of a service of which a process exited, and whose living
// processes were not determined since: other processes may have joined these instances. The caller
// holds the lock.
func (m *Manager) unasked(gone map[model.ProcessID]bool, living map[*run][]*model.Process) map[*run]Observation {
	asked := map[*run]Observation{}
	for _, e := range m.tasks {
		for _, one := range e.runs {
			if _, known := living[one]; !known && one.instance && one.observation != nil && slices.ContainsFunc(one.processes, func(p *model.Process) bool { return gone[p.ID] }) {
				asked[one] = one.observation
			}
		}
	}
	return asked
}

// leave takes processes that are gone out of all runs; living are who is left of those of instances.
// The caller holds the lock.
func (m *Manager) leave(gone map[model.ProcessID]bool, living map[*run][]*model.Process) {
	for _, e := range m.tasks {
		for _, one := range e.runs {
			left := slices.DeleteFunc(slices.Clone(one.processes), func(p *model.Process) bool { return gone[p.ID] })
			if len(left) == len(one.processes) {
				continue
			}
			if all, of := living[one]; of && one.observation != nil {
				left = slices.DeleteFunc(all, func(p *model.Process) bool { return gone[p.ID] })
			}
			if len(left) == 0 {
				one.finish(ProcessExited)
				continue
			}
			m.watch.add(left)
			m.watch.remove(one.processes)
			one.processes = left
		}
	}
}

// endRuns ends the runs of a task whose time is up, or that are to end for another reason.
func (m *Manager) endRuns(e *entry, now time.Time) (logs []*model.Logs) {
	for _, one := range e.runs {
		if one.state == Started && !one.starting && !now.Before(one.end) {
			one.finish(TimeUp)
		}
		switch {
		case one.state == Ended || one.ending == "" || one.starting || one.stopping:
		case one.state == Started:
			one.stopping = true
			m.work.Go(func() { m.stopRun(one) })
		default: // it waits
			logs = append(logs, m.over(one, one.ending, now))
		}
	}
	if e.ended() {
		m.settle(e)
	}
	return logs
}

// stopRun stops the observation of a run.
func (m *Manager) stopRun(one *run) {
	counts, err := one.observation.Stop()
	if err != nil {
		m.config.Logger.Error("Stopping a task", zap.String("task", one.of.id), zap.String("kind", one.kind), zap.Error(err))
	}
	m.mu.Lock()
	one.counts, one.err = counts, err
	log := m.over(one, one.ending, time.Now())
	m.settle(one.of)
	m.mu.Unlock()
	m.emit([]*model.Logs{log})
}

// sleep is how long nothing is due.
func (m *Manager) sleep(now time.Time) time.Duration {
	sleep := longestSleep
	for _, e := range m.tasks {
		for _, one := range e.runs {
			if one.state == Started && !one.starting && !one.stopping {
				sleep = min(sleep, one.end.Sub(now))
			}
		}
	}
	for _, e := range m.waiting {
		due := e.start
		if !e.waitUntil.IsZero() {
			due = e.waitUntil
		}
		sleep = min(sleep, due.Sub(now))
	}
	return max(sleep, time.Millisecond)
}

// saveAsItChanges saves the history until the context ends.
func (m *Manager) saveAsItChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.unsaved:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveAfter):
		}
		m.save(ctx)
	}
}

// save writes what has changed of the history. What could not be written is tried again
// with the next change.
func (m *Manager) save(ctx context.Context) {
	if m.config.Store == nil {
		return
	}
	m.mu.Lock()
	m.history.forget(time.Now())
	values, slots, err := m.history.changes()
	m.mu.Unlock()
	if err != nil {
		m.config.Logger.Error("Saving the history of tasks", zap.Error(err))
	}
	if len(values) == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	if err := m.config.Store.Save(within, values); err != nil {
		m.config.Logger.Error("Saving the history of tasks; tried again with the next change", zap.Error(err))
		m.mu.Lock()
		m.history.unsaved(slots)
		m.mu.Unlock()
	}
}
