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
	p.unmerged[kind] += o.Unmerged()
	for _, loss := range o.Losses() {
		key := LossKey{loss.Probe, loss.Reason}
		p.losses[key] += loss.Count
		if loss.Told {
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

// plus adds what another program of the same name has cost.
func (s ProgramStats) plus(cost observe.ProgramCost) ProgramStats {
	return ProgramStats{Runs: s.Runs + cost.Runs, Time: s.Time + cost.Time}
}
