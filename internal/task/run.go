// SPDX-License-Identifier: Apache-2.0

package task

import (
	"crypto/rand"
	"encoding/hex"
	"reflect"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// entry is a task that has not ended. The manager's lock guards it.
type entry struct {
	id      string
	request Request
	asked   time.Time
	runs    []*run
	// start is when it may begin, on the wall clock.
	start time.Time
	// waitUntil is when it is given up.
	waitUntil time.Time
	// admitted: it has one of the slots of running tasks.
	admitted bool
	// lacksCapacity: one of its observations has other options than the running ones, and no more
	// different ones may run.
	lacksCapacity bool
	// queued: its turn had not come when it was to begin.
	queued bool
	// waited: the requester got the answer that the run waits; each run is answered
	// later.
	waited bool
	// after is the run whose end it goes on from, where it is the rest of what that did, too.
	after *run
	// others had its runs for their own. The list is replaced, not changed.
	others []Beneficiary
	// slot is its index in the history, noSlot if it is not there.
	slot int
}

// run is one observation of a task.
type run struct {
	of        *entry
	index     int // in the request
	kind      string
	options   any
	duration  time.Duration
	processes []*model.Process // nil: targets select them
	single    *model.Process   // the observed process, if it is a single one
	named     []ProcessName    // the first of processes, as they were asked for
	asked     int              // how many they were
	targets   []process.Selector
	instance  bool // processes are those of an instance of a service

	state    State
	shared   *sharedObservation // nil where it has none
	starting bool               // the starter is at work
	stopping bool               // it is being stopped
	// ending is why it is to be stopped, as soon as it can be.
	ending      Reason
	observation Observation
	// followers requested the same before the run began, and are answered with its outcome.
	followers  []follower
	begin, end time.Time
	reason     Reason
	err        error
	counts     Counts
}

func newEntry(r *Request, now time.Time) *entry {
	e := &entry{id: newID(), request: *r, asked: now, start: r.Start, slot: noSlot}
	if e.start.Before(now) {
		e.start = now
	}
	for i, asked := range r.Runs {
		one := &run{
			of: e, index: i, kind: asked.Kind, options: asked.Options, duration: asked.Duration, state: Queued,
			processes: asked.Processes, instance: asked.Instance, targets: r.Targets,
		}
		if one.duration <= 0 {
			one.duration = r.Duration
		}
		if one.processes == nil {
			one.processes = r.Processes
		}
		if len(one.processes) > 0 {
			one.targets = nil
		} else {
			one.processes = nil
		}
		one.name()
		e.runs = append(e.runs, one)
	}
	return e
}

// newID returns 16 hexadecimal digits.
func newID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails, see crypto/rand
	return hex.EncodeToString(raw[:])
}

// observes reports whether a run's processes are a part of what r observes or waits for.
func (r *run) observes(id model.ProcessID) bool {
	if r.asked == 0 || r.instance && r.observation != nil {
		return r.observation != nil && r.observation.Covers(id)
	}
	return slices.ContainsFunc(r.processes, func(p *model.Process) bool { return p.ID == id })
}

// sameTargets reports whether two runs have the same targets.
func (r *run) sameTargets(o *run) bool {
	return r.asked == 0 && o.asked == 0 && (len(r.targets) == 0 && len(o.targets) == 0 || reflect.DeepEqual(r.targets, o.targets))
}

// within reports whether the run observes only processes that o is to observe.
func (r *run) within(o *run, processes []*model.Process) bool {
	switch {
	case r.asked == 0 || o.asked == 0:
		return r.sameTargets(o)
	case r.instance && o.instance:
		return true // it is the same, since they have a process in common
	}
	return !slices.ContainsFunc(r.processes, func(p *model.Process) bool {
		return !slices.ContainsFunc(processes, func(of *model.Process) bool { return of.ID == p.ID })
	})
}

// name notes which processes the run observes, for the reports of it.
func (r *run) name() {
	r.asked, r.single = len(r.processes), only(r.processes)
	r.named = make([]ProcessName, 0, min(r.asked, maxNamed))
	for _, p := range r.processes[:min(r.asked, maxNamed)] {
		r.named = append(r.named, nameOf(p))
	}
}

func nameOf(p *model.Process) ProcessName {
	return ProcessName{PID: p.ID.PID, StartTicks: p.ID.StartTicks, Service: p.ServiceName}
}

func (e *entry) record() Record {
	r := Record{ID: e.id, Name: e.request.Name, By: e.request.By, Causes: e.request.Causes, GoesOn: e.request.GoesOn, Asked: e.asked, For: e.others}
	if len(r.Causes) > maxNamed {
		r.Causes = r.Causes[:maxNamed]
	}
	if p := only(e.request.Processes); p != nil {
		of := nameOf(p)
		r.Process = &of
	}
	for _, one := range e.runs {
		r.Runs = append(r.Runs, one.record())
	}
	return r
}

func (r *run) record() RunRecord {
	out := RunRecord{
		Kind: r.kind, State: r.state, Processes: r.named, Of: r.asked, Targets: r.targets,
		Duration: r.duration, Begin: r.begin, End: r.end, Reason: r.reason, Counts: r.counts,
	}
	if r.state == Scheduled {
		out.Begin, out.End = r.of.start, r.of.start.Add(r.duration)
	}
	if r.err != nil {
		out.Error = r.err.Error()
	}
	return out
}

// ended reports whether all runs have.
func (e *entry) ended() bool {
	return !slices.ContainsFunc(e.runs, func(r *run) bool { return r.state != Ended })
}

// set puts all runs that have not ended into a state.
func (e *entry) set(state State) {
	for _, r := range e.runs {
		if r.state != Ended {
			r.state = state
		}
	}
}

// refused reports whether the request had no effect and its answer says so.
func (e *entry) refused() bool {
	return !e.waited && !slices.ContainsFunc(e.runs, func(r *run) bool { return r.reason != Failed })
}

// end has all runs end.
func (e *entry) end(why Reason) {
	for _, r := range e.runs {
		r.finish(why)
	}
}

// finish has a run end; the first reason counts.
func (r *run) finish(why Reason) {
	if r.state != Ended && r.ending == "" {
		r.ending = why
	}
}

// extend lets a run last this long from now on, or from its start if that is to come, if it would end
// before. It reports whether it would have.
func (r *run) extend(now time.Time, by time.Duration) bool {
	switch until := now.Add(by); {
	case r.state == Ended:
		return false
	case r.begin.IsZero():
		if by <= r.duration {
			return false
		}
		r.duration = by
	case !until.After(r.end):
		return false
	default:
		r.end, r.duration = until, until.Sub(r.begin)
	}
	return true
}

// tellOutcome says what has become of the run.
func (r *run) tellOutcome(o *Outcome) {
	o.State = r.state
	if r.reason == Failed {
		o.Err = r.err
		return
	}
	o.TaskID = r.of.id
}
