// SPDX-License-Identifier: Apache-2.0

package task

import (
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// Reason says why a run has ended.
type Reason string

// Reasons of ends.
const (
	// TimeUp: it has run as long as was asked for.
	TimeUp Reason = "duration"
	// ProcessExited: none of its processes is there any more.
	ProcessExited Reason = "process_exited"
	// Stopped: a user requested it.
	Stopped Reason = "stopped"
	// Shutdown: the receiver has stopped.
	Shutdown Reason = "shutdown"
	// Interrupted: the Collector has ended without stopping the receiver.
	Interrupted Reason = "interrupted"
	// Failed: it could not start.
	Failed Reason = "failed"
	// Expired: it has waited for a slot for an hour.
	Expired Reason = "expired"
	// Recovered: when its turn came, why it was asked for held no more.
	Recovered Reason = "recovered"
	// Covered: when its turn came, another task observed the same.
	Covered Reason = "covered"
)

const (
	// maxNamed bounds the processes and causes that a record names; the rest is counted.
	maxNamed = 64
	// maxFor bounds those who had its runs for their own: as many workers of a server, or processes
	// that a task of the host observes, as trigger while it runs.
	maxFor = 256
)

// Record is what is known of a task. Its slices are not changed any more.
type Record struct {
	ID     string        `json:"id"`
	Name   string        `json:"name,omitempty"`
	By     string        `json:"by"`
	Causes []model.Cause `json:"causes,omitempty"`
	// GoesOn as of [Request].
	GoesOn bool `json:"goes_on,omitempty"`
	// Process is the one that it was asked for, where that is one alone.
	Process *ProcessName `json:"process,omitempty"`
	// Asked is when it was asked for.
	Asked time.Time   `json:"asked"`
	Runs  []RunRecord `json:"runs"`
	// For are the last of those policies that have asked for what it ran already.
	For []Beneficiary `json:"for,omitempty"`
}

// Beneficiary is a policy that had a run of another task for its own.
type Beneficiary struct {
	By string `json:"by"`
	// PID and StartTicks name the process that it was for, At is since when.
	PID        uint32    `json:"pid"`
	StartTicks uint64    `json:"start_ticks"`
	At         time.Time `json:"at"`
}

// Policy is its policy.
func (b *Beneficiary) Policy() string { return (&Record{By: b.By}).Policy() }

// RunRecord is what is known of a run of a task.
type RunRecord struct {
	Kind  string `json:"kind"`
	State State  `json:"state"`
	// Processes are the first of those that it observes, of Of in all.
	Processes []ProcessName `json:"processes,omitempty"`
	Of        int           `json:"of,omitempty"`
	// Targets select the observed processes if there are no Processes.
	Targets []process.Selector `json:"targets,omitempty"`
	// Duration is how long it is to run.
	Duration time.Duration `json:"duration"`
	// Begin is when it starts or started, End when it is to end or ended; zero: not known.
	Begin time.Time `json:"begin,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Reason and Error say why it has ended.
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// Counts are known when it has ended.
	Counts Counts `json:"counts,omitzero"`
}

// ProcessName names a process.
type ProcessName struct {
	PID        uint32 `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
	Service    string `json:"service"`
}

// Origin is who asked for the task, without the name: config, policy, api.
func (r *Record) Origin() string {
	origin, _, _ := strings.Cut(r.By, ":")
	return origin
}

// Began is when its first run did; zero where none has.
func (r *Record) Began() (at time.Time) {
	for i := range r.Runs {
		if begin := r.Runs[i].Begin; r.Runs[i].State != Scheduled && !begin.IsZero() && (at.IsZero() || begin.Before(at)) {
			at = begin
		}
	}
	return at
}

// Policy is the policy that asked for the task; empty where none did.
func (r *Record) Policy() string {
	name, found := strings.CutPrefix(r.By, "policy:")
	if !found {
		return ""
	}
	return name
}

// Ended reports whether all of its runs have ended, and when the last one did.
func (r *Record) Ended() (at time.Time, ended bool) {
	for i := range r.Runs {
		if r.Runs[i].State != Ended {
			return time.Time{}, false
		}
		if r.Runs[i].End.After(at) {
			at = r.Runs[i].End
		}
	}
	return at, true
}
