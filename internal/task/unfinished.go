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

// Unfinished are requests for what Close has ended before its time of what policies have started, or
// had to go on after another task's run: whoever stops to begin anew asks for it again, since the
// policies are silent. Processes and options are those of before. Call it after Close.
func (m *Manager) Unfinished() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Request, len(m.unfinished))
	for i := range m.unfinished {
		list[i] = m.unfinished[i].request
	}
	return list
}

// noteUnfinished notes the rest of a run that is about to end. What has waited for its first run is
// told to have failed, and so is none. The caller holds the lock.
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
		request.Holds, request.Started, request.Failed = nil, nil, nil // whoever answers them stops
		m.unfinished = append(m.unfinished, unfinished{of: of, request: request})
	}
	to := &m.unfinished[i].request
	to.Runs = append(to.Runs, Run{Kind: one.kind, Options: one.options, Duration: rest, Processes: one.processes, Instance: one.instance})
}
