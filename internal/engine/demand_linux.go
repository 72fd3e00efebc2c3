// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// demand is what runs for tasks. Each observation is started and ended under a lock of its
// own, so that one which takes long to load holds up nobody but those who want the same.
type demand struct {
	// use is held for reading by whoever starts or ends something, so that closing waits for
	// them.
	use    sync.RWMutex
	closed bool // under use

	// mapping is held while following mappings begins and ends.
	mapping sync.Mutex
	// mapped ends when nobody follows mappings for tasks any more; nil: nobody does.
	mapped chan struct{} // under mapping

	mu     sync.Mutex                // held for moments, below; it is the last one that anybody takes
	shared [TaskObservations]*shared // each has a bit of scopes, from lifecycle.ScopeTask on
}

// lendable is the memory that observations for tasks have for what they know of sockets, as the
// parts that it can be lent in.
const lendable = 2 << TaskObservations

// lend gives an observation half of what no other one has, until it is given up: mostly one runs,
// and all together have no more than there is.
func (d *demand) lend(s *shared) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.lent == 0 {
		free := uint64(lendable)
		for _, other := range d.shared {
			if other != nil {
				free -= other.lent
			}
		}
		s.lent = free / 2
	}
	return s.lent
}

// close has nothing start any more, and waits for what is about to.
func (d *demand) close() {
	d.use.Lock()
	defer d.use.Unlock()
	d.closed = true
}

// claim returns the observation with these options, with a place of its own where there was
// none. It keeps its place until everybody who has claimed it has given it up.
func (d *demand) claim(options Options) (*shared, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.shared[:], func(s *shared) bool { return s != nil && reflect.DeepEqual(s.options, options) }); i >= 0 {
		d.shared[i].claims++
		return d.shared[i], nil
	}
	place := slices.Index(d.shared[:], nil)
	if place < 0 {
		return nil, fmt.Errorf("%d observations with different options run for tasks already, more cannot: "+
			"wait for one to end, or give tasks and policies the same options", TaskObservations)
	}
	d.shared[place] = &shared{options: options, scope: lifecycle.ScopeTask << place, claims: 1}
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

// anyWanted tells whether the options of anything that runs, begins or ends are such.
func (d *demand) anyWanted(such func(Options) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.shared[:], func(s *shared) bool { return s != nil && such(s.options) })
}
