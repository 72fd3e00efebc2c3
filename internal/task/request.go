// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// Run is one observation of a task.
type Run struct {
	// Kind is the observation, such as on_cpu. A task has each kind once at most.
	Kind string
	// Options are known to the [Starter] of this kind; this package does not inspect
	// them.
	Options any
	// Duration is how long it runs; 0: as long as the request says.
	Duration time.Duration
	// Processes are observed instead of those of the request, unless it is nil.
	Processes []*model.Process
	// Instance: the processes are those of an instance of a service. Processes that join it while
	// the run lasts are observed, too.
	Instance bool
}

// Request asks for a task.
type Request struct {
	// Name is what its user called it, may be empty.
	Name string
	// By says who asks: an origin alone, or with a name behind a colon, such as "config",
	// "api" or "policy:checkout-slow".
	By string
	// Causes are why, of a policy.
	Causes []model.Cause
	// Reported is set if an event reported the causes already, when the request had no effect. That
	// it has none again is not reported.
	Reported bool
	// Runs are what it does, at least one.
	Runs []Run
	// Processes are those to observe. Without any, Targets select them: all processes that match
	// one of them while the run lasts. Neither: all processes in scope.
	Processes []*model.Process
	Targets   []process.Selector
	// Duration is how long each run lasts that does not say so itself, more than 0.
	Duration time.Duration
	// Start is when it begins, on the wall clock; zero or past: now.
	Start time.Time
	// Holds, if not nil, is asked when the task has waited and its turn has come: what was to be
	// seen may be over, and then it does not start. It must return soon.
	Holds func() bool
	// Extend has a run that observes the same already last as long as this would, or, where it
	// observes others, too, the rest of this run after it.
	Extend bool
	// GoesOn: the run continues what another task began for the same causes. An event reported
	// these already, and the silence period counts from then.
	GoesOn bool
	// Failed, if not nil, is called for a run that was queued or scheduled and will not start,
	// because it could not or because it waited in vain. It must return soon, and may be called
	// before the request is answered; both hold for Started as well.
	Failed func(kind string, why error)
	// Started, if not nil, is called for a run that was queued or scheduled and has started, or
	// found another one that had.
	Started func(kind string)

	triggerSent bool // its trigger event was emitted
}

// check finds what makes no sense, where so many observations may differ; 0: as many as are
// wanted.
func (r *Request) check(different int) error {
	switch {
	case len(r.Runs) == 0:
		return ErrNothing
	case different > 0 && len(r.Runs) > different:
		return fmt.Errorf("%d observations are asked for: %d run at once", len(r.Runs), different)
	}
	listed := map[string]bool{}
	for i := range r.Runs {
		switch run := &r.Runs[i]; {
		case listed[run.Kind]:
			return fmt.Errorf("%s is asked for twice", run.Kind)
		case run.Duration <= 0 && r.Duration <= 0:
			return fmt.Errorf("%s: how long it is to run is not said", run.Kind)
		default:
			listed[run.Kind] = true
		}
	}
	return nil
}

// State is where a run is.
type State string

// States of runs.
const (
	// Scheduled: its start lies in the future.
	Scheduled State = "scheduled"
	// Queued: as many tasks run as may at once, or another one that is to observe the same
	// has not begun.
	Queued State = "queued"
	// Started: it runs.
	Started State = "started"
	// Ended: it has run, or never will.
	Ended State = "ended"
	// Refused: the request had no effect. Only answers to requests have this state.
	Refused State = "refused"
)

// Outcome says what has become of one run of a request.
type Outcome struct {
	Kind string
	// TaskID is whose run this is; empty where it was refused. Where the same observation
	// of the same processes runs or waits already it is that one's, and Already is set.
	TaskID  string
	Already bool
	State   State
	// Err is why it was refused.
	Err error
}

// AllRefused reports whether a request had no effect, which the receiver must report.
func AllRefused(outcomes []Outcome) bool {
	return !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Err == nil || errors.Is(o.Err, ErrClosed) })
}
