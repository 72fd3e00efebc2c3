// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"
	"time"
)

// unfinished is a request for the rest of a task's time.
type unfinished struct {
	of      *entry
	request Request
}

// Unfinished returns requests for the runs that Close ended before their time: those that policies
// started, and those that continued after another task's run. The caller that stops in order to
// start anew requests them again, since the policies are silent. Processes and options are
// unchanged. Call it after Close.
func (m *Manager) Unfinished() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Request, len(m.unfinished))
	for i := range m.unfinished {
		list[i] = m.unfinished[i].request
	}
	return list
}

// noteUnfinished notes the rest of a run that is about to end. A run that waited for its first
// start is reported as failed, and so has no rest. The caller holds the lock.
func (m *Manager) noteUnfinished(one *run, reason Reason, now time.Time) {
	of, rest := one.of, one.end.Sub(now)
	if one.begin.IsZero() {
		rest = one.duration + max(of.start.Sub(now), 0)
	}
	if reason != Shutdown || (&Record{By: of.request.By}).Policy() == "" || one.begin.IsZero() && !of.request.GoesOn || rest < shortestRest {
		return
	}
	i := slices.IndexFunc(m.unfinished, func(u unfinished) bool { return u.of == of })
	if i < 0 {
		i = len(m.unfinished)
		request := of.request
		request.Runs, request.Start, request.GoesOn = nil, time.Time{}, true
		request.Holds, request.Started, request.Failed = nil, nil, nil // the caller that answers them stops
		m.unfinished = append(m.unfinished, unfinished{of: of, request: request})
	}
	to := &m.unfinished[i].request
	to.Runs = append(to.Runs, Run{Kind: one.kind, Options: one.options, Duration: rest, Processes: one.processes, Instance: one.instance})
}
