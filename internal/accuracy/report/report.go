// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/judge"
)

// Targets.
const (
	// MinWhole is the share of samples that must reach the entry of their thread.
	MinWhole = 0.99
	// MaxUnnamed is the share of frames that may have no name where symbols exist.
	MaxUnnamed = 0.02
	// MinSamples is how many samples a program must have given, or its shares say nothing: of 1,000, one in a hundred is
	// known to within a third.
	MinSamples = 1000
)

// Report is what was found of all programs.
type Report struct {
	Load     time.Duration // of load
	Period   time.Duration
	Programs []Program
	Absent   []string // what is not installed
}

// Program is one row.
type Program struct {
	Name    string
	Version string // package and version
	Result  judge.Result
}

// WholeShare is the share of samples that reach the entry of their thread.
func (p Program) WholeShare() float64 { return share(p.Result.Whole, p.Result.Samples) }

// LaterShare is the same without the first second.
func (p Program) LaterShare() float64 { return share(p.Result.LaterWhole, p.Result.Later) }

// Unnamed is the share of frames without a name where symbols exist.
func (p Program) Unnamed() float64 {
	return share(p.Result.Frames.UnnamedWithSymbols, p.Result.Frames.WithSymbols)
}

// UnnamedOfAll is the share of all frames.
func (p Program) UnnamedOfAll() float64 { return share(p.Result.Frames.Unnamed, p.Result.Frames.All) }

// Missed says which targets a program misses; nil: none.
func (p Program) Missed() error {
	var errs []error
	if p.Result.Samples < MinSamples {
		errs = append(errs, fmt.Errorf("%s: %d samples, at least %d are needed", p.Name, p.Result.Samples, MinSamples))
	}
	if p.WholeShare() < MinWhole {
		errs = append(errs, fmt.Errorf("%s: %s of the samples reach the entry of their thread, target %s", p.Name, percent(p.WholeShare()), percent(MinWhole)))
	}
	if p.Unnamed() > MaxUnnamed {
		errs = append(errs, fmt.Errorf("%s: %s of the frames have no name where symbols exist, target %s", p.Name, percent(p.Unnamed()), percent(MaxUnnamed)))
	}
	return errors.Join(errs...)
}

// Missed says which targets are missed; nil: none.
func (r Report) Missed() error {
	var errs []error
	for _, p := range r.Programs {
		errs = append(errs, p.Missed())
	}
	if len(r.Programs) == 0 {
		errs = append(errs, errors.New("no program was judged"))
	}
	return errors.Join(errs...)
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
