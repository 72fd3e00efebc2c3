// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// demand is what runs for tasks. Each observation is started and ended under a lock of its
// own, so that one which takes long to load delays only the tasks that want the same.
type demand struct {
	// use is held for reading while an observation is started or ended, so that closing waits for
	// it.
	use    sync.RWMutex
	closed bool // under use

	// mapping is held while following mappings begins and ends.
	mapping sync.Mutex
	// mapped is closed when mappings are no longer followed for tasks; nil: they are not followed.
	mapped chan struct{} // under mapping

	mu     sync.Mutex                // held briefly, below; it is the last lock in the order of locks
	shared [TaskObservations]*shared // each has a bit of scopes, from lifecycle.ScopeTask on
}

// socketShares is the memory that all observations for tasks have for their tables of sockets, in the
// smallest shares that it is divided into.
const socketShares = 2 << TaskObservations

// assignSocketShare gives an observation half of what no other one has, until it is given up: mostly one runs,
// and all together never exceed the total.
func (d *demand) assignSocketShare(s *shared) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.socketShare == 0 {
		free := uint64(socketShares)
		for _, other := range d.shared {
			if other != nil {
				free -= other.socketShare
			}
		}
		s.socketShare = free / 2
	}
	return s.socketShare
}

// close prevents further starts, and waits for those in progress.
func (d *demand) close() {
	d.use.Lock()
	defer d.use.Unlock()
	d.closed = true
}

// claim returns the observation with this plan, with a slot of its own where there was
// none. It keeps its slot until each claim has been given up.
func (d *demand) claim(plan observe.Plan) (*shared, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.shared[:], func(s *shared) bool { return s != nil && reflect.DeepEqual(s.plan, plan) }); i >= 0 {
		d.shared[i].claims++
		return d.shared[i], nil
	}
	place := slices.Index(d.shared[:], nil)
	if place < 0 {
		return nil, fmt.Errorf("%d observations with different options run for tasks already, more cannot: "+
			"wait for one to end, or give tasks and policies the same options", TaskObservations)
	}
	d.shared[place] = &shared{plan: plan, scope: lifecycle.ScopeTask << place, claims: 1}
	return d.shared[place], nil
}

// giveUp is the opposite of claim.
func (d *demand) giveUp(s *shared) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.claims--; s.claims == 0 {
		d.shared[slices.Index(d.shared[:], s)] = nil
	}
}

// anyShared reports whether the plan of any observation that runs, begins or ends matches.
func (d *demand) anyShared(match func(observe.Plan) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.shared[:], func(s *shared) bool { return s != nil && match(s.plan) })
}
