// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// shortestRest is the shortest rest of a run that is worth the start of another one.
	shortestRest = time.Second
	// maxRests bounds the rests among the waiting tasks, so that other tasks have capacity, too.
	maxRests = maxWaiting / 2
)

// outlast has what a request asked for go on where a run does it that ends before: one that is
// of others, too, and does not last longer for the sake of this one. Who asks for it again has
// the rest that waits already last longer. The caller holds the lock.
func (m *Manager) outlast(request *Request, one, by *run, now time.Time) {
	until := now.Add(one.duration)
	if m.closed || !request.Extend || until.Sub(by.end) < shortestRest {
		return
	}
	if one.processes != nil && !slices.ContainsFunc(one.processes, func(p *model.Process) bool { return by.observes(p.ID) }) {
		return // they have ended while it started
	}
	waits, rests := m.restOf(request.By, one)
	if waits != nil {
		from := now // it begins
		if waits.of.start.After(now) {
			from = waits.of.start
		}
		waits.duration = max(waits.duration, until.Sub(from))
		return
	}
	if rests >= maxRests || len(m.waiting) >= maxWaiting {
		m.refused++
		m.warnings.Warn(fmt.Errorf("%s of a task of %s ends with task %s: %d tasks wait, %d of them to continue after another one, the maximum",
			one.kind, request.By, by.of.id, len(m.waiting), rests))
		return
	}
	e := newEntry(&Request{
		Name: request.Name, By: request.By, Causes: request.Causes, Targets: request.Targets, Processes: one.processes,
		Runs:     []Run{{Kind: one.kind, Options: one.options, Instance: one.instance}},
		Duration: until.Sub(by.end), Start: by.end, Holds: request.Holds, Extend: true, GoesOn: true,
	}, now)
	e.after, e.waited = by, true // no requester waits for it, so its failure is reported as that of a task that waited
	e.set(Scheduled)
	m.tasks[e.id] = e
	m.waiting = append(m.waiting, e)
	m.watch.add(e.runs[0].processes)
}

// restOf returns the rest of a requester's run that waits already, nil if there is none, and the
// number of waiting rests of all requesters.
func (m *Manager) restOf(by string, one *run) (waits *run, rests int) {
	for _, e := range m.waiting {
		if e.after == nil || e.ended() {
			continue
		}
		rests++
		if rest := e.runs[0]; e.request.By == by && rest.kind == one.kind && rest.ending == "" && rest.sameWhom(one) {
			waits = rest
		}
	}
	return waits, rests
}

// advanceRests has those go on now who were to after a run that has ended before its time. They
// end when they were to. The caller holds the lock.
func (m *Manager) advanceRests(ended *run, now time.Time) {
	for _, e := range m.waiting {
		if e.after != ended || !e.start.After(now) {
			continue
		}
		e.runs[0].duration += e.start.Sub(now)
		e.start = now
		m.rouse()
	}
}

// sameWhom reports whether two runs are to observe the same: an instance of a service is the same where
// they have a process of it in common.
func (r *run) sameWhom(o *run) bool {
	common := func(p *model.Process) bool {
		return slices.ContainsFunc(o.processes, func(q *model.Process) bool { return q.ID == p.ID })
	}
	switch {
	case len(r.processes) == 0 || len(o.processes) == 0:
		return r.sameTargets(o)
	case r.instance != o.instance:
		return false
	case r.instance:
		return slices.ContainsFunc(r.processes, common)
	}
	return len(r.processes) == len(o.processes) && !slices.ContainsFunc(r.processes, func(p *model.Process) bool { return !common(p) })
}
