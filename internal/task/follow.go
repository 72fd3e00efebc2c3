// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// follower requested what a run of another task is to do instead of its own.
type follower struct {
	request *Request
	own     *run
}

// follow answers a request with the state of the run that does the same already. If the run has not
// begun, the request is notified later of its outcome.
func (r *run) follow(request *Request, own *run) Outcome {
	outcome := Outcome{Kind: own.kind, TaskID: r.of.id, Already: true, State: r.state}
	if r.begin.IsZero() {
		outcome.State = Queued
		if request.Started != nil || request.Failed != nil || len(request.Causes) > 0 { // otherwise no requester needs an answer
			r.followers = append(r.followers, follower{request, own})
		}
	}
	return outcome
}

// followersStarted notifies the followers of a run that by observes the same for them, and returns
// the events of that. The caller holds the lock.
func (m *Manager) followersStarted(r, by *run, now time.Time) (logs []*model.Logs) {
	for _, f := range r.followers {
		m.instead(f.request, f.own, by, now)
		f.request.answer(f.own.kind, Covered, nil)
		logs = append(logs, f.request.triggered(Outcome{TaskID: by.of.id, State: Started}, now)...)
	}
	r.followers = nil
	return logs
}

// instead has a run that has begun do what a request asked for. The history says so, since a policy is
// as silent then as if it had started that; of what goes on it is silent since before. The caller holds
// the lock.
func (m *Manager) instead(request *Request, one, by *run, now time.Time) {
	if by.begin.IsZero() {
		return // its followers are notified when it has
	}
	if p, of := only(request.Processes), by.of; p != nil && !request.GoesOn && (&Record{By: request.By}).Policy() != "" {
		others := slices.DeleteFunc(slices.Clone(of.others), func(b Beneficiary) bool {
			return b.By == request.By && b.PID == p.ID.PID && b.StartTicks == p.ID.StartTicks
		})
		others = append(others, Beneficiary{By: request.By, PID: p.ID.PID, StartTicks: p.ID.StartTicks, At: now})
		of.others = others[max(0, len(others)-maxFor):]
		m.remember(of)
	}
	m.outlast(request, one, by, now)
}

// answer notifies the requesters that wait for the run why it ended before it began.
func (r *run) answer(reason Reason) {
	if r.of.waited {
		r.of.request.answer(r.kind, reason, r.err)
	}
	for _, f := range r.followers {
		f.request.answer(f.own.kind, reason, r.err)
	}
	r.followers = nil
}

// answer notifies the requester of a queued run why that ended before it began.
func (r *Request) answer(kind string, reason Reason, err error) {
	switch {
	case reason == Covered: // by one that runs
		if r.Started != nil {
			r.Started(kind)
		}
	case r.Failed != nil:
		if err == nil {
			err = fmt.Errorf("starting %s: it has waited in vain: %s", kind, reason)
		}
		r.Failed(kind, err)
	}
}
