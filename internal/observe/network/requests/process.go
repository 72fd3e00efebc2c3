// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// process is what a process did. It includes all programs that the process executed one after the other, unless they differ in what is
// reported of them; or it is what all processes of a service instance did.
type process struct {
	known  *model.Process // the resource; nil until it is known
	series map[key]*series
	// pending are the series of connections whose peer is unknown until the next report; nil if there are none.
	pending map[pendingKey]*series
	// newest is the series that counted last, with newestKey; nil once that series has ended. Most requests belong to the same series as the
	// one before.
	newest    *series
	newestKey key
	names     l7.Names
	subjects  int
	// ending is the number of series that wait for their last export.
	ending int
	// unkept: there may be texts and hosts that no series has.
	unkept bool
	// unnamed counts while it is not known whether the process is in scope.
	unnamed l7.Unnamed
}

func newProcess() *process { return &process{series: map[key]*series{}, subjects: 1} }

// unnamedOf returns the counts for all processes in scope, or those of p while it is not known whether p is in scope. The caller holds the
// lock.
func (t *Totals) unnamedOf(p *process) *l7.Unnamed {
	if p.known == nil {
		return &p.unnamed
	}
	return &t.unnamed
}

// age drops the series that have been idle for long, and returns their number; one that counts again starts anew. Texts and hosts that no
// series has are dropped with them.
func (p *process) age() (dropped int) {
	for k, s := range p.series {
		if s.idle++; s.idle > idleReports && !s.ending {
			delete(p.series, k)
			dropped++
		}
	}
	if dropped > 0 {
		p.newest = nil
	}
	if dropped == 0 && !p.unkept {
		return 0
	}
	p.unkept = false
	p.names.Keep(func(yield func(*l7.Key) bool) {
		for k := range p.series {
			if !yield(&k.Key) {
				return
			}
		}
		for k := range p.pending {
			if !yield(&k.Key) {
				return
			}
		}
	})
	return dropped
}

// metrics returns what is exported of the process.
func (p *process) metrics(only l7.Role) []model.Metric {
	points := map[*model.Descriptor][]model.Point{}
	for k, s := range p.series {
		if only == l7.RoleUnknown || only == k.Role {
			s.points(points)
		}
	}
	list := make([]model.Metric, 0, len(points))
	for descriptor, of := range points {
		list = append(list, model.Metric{Descriptor: descriptor, Points: of})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}
