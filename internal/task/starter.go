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

// Spec says what to observe of whom.
type Spec struct {
	// TaskID marks all that is told of it.
	TaskID  string
	Kind    string
	Options any
	// Processes are those that are observed; where there are none, what Targets match.
	// Instance says that all later ones of their instance of a service are, too.
	Processes []*model.Process
	Instance  bool
	Targets   []process.Selector
}

// Observation is one that runs.
type Observation interface {
	// Covers tells whether a process is observed.
	Covers(model.ProcessID) bool
	// Living are those of the instance of a service that are there now, where the observation
	// is of one.
	Living() []*model.Process
	// Stop ends the observation, after what it has seen so far was handed over.
	Stop() (Counts, error)
}

// Counts are what a run has come to.
type Counts struct {
	// Samples is how many events it has told of.
	Samples uint64
	// Losses is how many events its programs could not keep while it ran; they may have
	// been of another task that shares the programs.
	Losses uint64
}
