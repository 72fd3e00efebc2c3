// SPDX-License-Identifier: Apache-2.0

package task

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// Starter makes observations. It may be called by several goroutines at once.
type Starter interface {
	// Start returns when the observation runs. What it returns is stopped once.
	Start(spec Spec) (Observation, error)
}

// Spec is what to observe, and of which processes.
type Spec struct {
	// TaskID is an attribute of everything that the observation reports.
	TaskID  string
	Kind    string
	Options any
	// Processes are those to observe; if there are none, Targets select them. Instance: all later
	// processes of their instance of a service are observed, too.
	Processes []*model.Process
	Instance  bool
	Targets   []process.Selector
}

// Observation is one that runs.
type Observation interface {
	// Covers reports whether a process is observed.
	Covers(model.ProcessID) bool
	// Living are those of the instance of a service that are there now, where the observation
	// is of one.
	Living() []*model.Process
	// Stop ends the observation, after what it has seen so far was handed over.
	Stop() (Counts, error)
}

// Counts are what a run has come to.
type Counts struct {
	// Samples is the number of events that it has reported.
	Samples uint64
	// Losses is how many events its programs could not keep while it ran; they may have
	// been of another task that shares the programs.
	Losses uint64
}
