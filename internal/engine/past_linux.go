// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// past is what observations have come to that do not run any more: counts since the start
// never fall.
type past struct {
	events, unmerged, missed map[string]uint64
	losses                   map[LossKey]uint64 // incomplete ones, too
	incomplete               map[LossKey]uint64
	programs                 map[string]ProgramStats
	retired                  uint64 // series
}

func newPast() past {
	return past{
		events: map[string]uint64{}, unmerged: map[string]uint64{}, missed: map[string]uint64{},
		losses: map[LossKey]uint64{}, incomplete: map[LossKey]uint64{}, programs: map[string]ProgramStats{},
	}
}

// add takes over the counts of an observation that is about to be closed.
func (p *past) add(o *running) {
	kind := string(o.kind)
	p.events[kind] += o.Samples()
	p.unmerged[kind] += unmerged(o)
	p.retired += retiredSeries(o)
	for _, loss := range o.Losses() {
		key := LossKey{loss.Probe, loss.Reason}
		p.losses[key] += loss.Count
		if loss.Incomplete {
			p.incomplete[key] = p.losses[key]
		}
	}
	if costs, err := o.Costs(); err == nil {
		o.costs = costs
	}
	for _, cost := range o.costs {
		name := kind + "." + cost.Program
		p.programs[name] = p.programs[name].plus(cost)
		p.missed[kind] += cost.Missed
	}
}

// retiredSeries is how many series of an observation ended.
func retiredSeries(o *running) uint64 {
	if owner, ok := o.Observation.(observe.SeriesOwner); ok {
		return owner.RetiredSeries()
	}
	return 0
}

// unmerged is how many events of an observation the kernel could not merge with equal ones.
func unmerged(o *running) uint64 {
	if merger, ok := o.Observation.(observe.Merger); ok {
		return merger.Unmerged()
	}
	return 0
}

// plus adds what another program of the same name has cost.
func (s ProgramStats) plus(cost observe.ProgramCost) ProgramStats {
	return ProgramStats{Runs: s.Runs + cost.Runs, Time: s.Time + cost.Time}
}
