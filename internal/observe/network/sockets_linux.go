// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// adoptions bounds how often sockets from before the start are searched. The first time their processes are asked about; the search is over
// once all are decided, and the last time those that are not are counted.
const adoptions = 3

// walks are the modes of the programs for each search.
var walks = [adoptions]bindings.NetworkNetworkWalk{
	bindings.NetworkNetworkWalkNETWORK_WALK_NOTES,
	bindings.NetworkNetworkWalkNETWORK_WALK_DECIDED,
	bindings.NetworkNetworkWalkNETWORK_WALK_ALL,
}

// adopt searches for sockets from before the start.
func (o *Observer) adopt() error {
	if o.adopted == adoptions {
		return nil
	}
	walk, undecided := walks[o.adopted], o.coll.Variables[bindings.NetworkVarSocketsUndecided]
	o.adopted++
	err := errors.Join(undecided.Set(uint32(0)), o.coll.Variables[bindings.NetworkVarWalk].Set(uint32(walk)))
	if err == nil {
		err = kernel.Iterate(o.coll.Programs[bindings.NetworkProgAdoptSocket], nil)
	}
	var n uint32
	if err == nil {
		err = undecided.Get(&n)
	}
	if err != nil {
		return fmt.Errorf("looking for sockets from before the start: %w", err)
	}
	if n == 0 && walk != bindings.NetworkNetworkWalkNETWORK_WALK_NOTES {
		o.adopted = adoptions
	}
	return nil
}

// markEnds passes the number of ends of connections that were noted until the last call but one, a second or more before, to the programs.
func (o *Observer) markEnds() error {
	if time.Since(o.marked) < drainInterval {
		return nil
	}
	o.marked = time.Now()
	vars, before := o.coll.Variables, o.noted
	err := errors.Join(
		vars[bindings.NetworkVarEndsNoted].Get(&o.noted.ends), vars[bindings.NetworkVarEndsBefore].Set(before.ends),
		vars[bindings.NetworkVarClientsNoted].Get(&o.noted.clients), vars[bindings.NetworkVarClientsBefore].Set(before.clients),
	)
	if err != nil {
		return fmt.Errorf("reading how many ends of connections were noted: %w", err)
	}
	return nil
}

// countThreads reads the number of threads of the host.
func (o *Observer) countThreads() error {
	load, err := proc.ReadLoadAverage(o.config.ProcRoot)
	if err != nil {
		return fmt.Errorf("counting the host's threads: %w", err)
	}
	o.threads.Store(load.Threads)
	return nil
}

// countAgain counts sockets between two reports when the kernel is close to its bound of remembered sockets: some may have been freed without
// a record. It takes a twentieth of the time at most.
func (o *Observer) countAgain() error {
	var known int32
	if err := o.coll.Variables[bindings.NetworkVarSocketsKnown].Get(&known); err != nil {
		return fmt.Errorf("reading how many sockets are remembered: %w", err)
	}
	if int64(known)*2 < int64(o.plan.sockets) || time.Since(o.counted) < 20*o.counting {
		return nil
	}
	return o.countSockets()
}

// countSockets makes the kernel count the open sockets.
func (o *Observer) countSockets() error {
	began := time.Now()
	defer func() {
		o.counted = time.Now()
		o.counting = o.counted.Sub(began)
	}()
	for i := range o.table.slots.items {
		o.table.slots.items[i].Open = [states]uint32{}
	}
	o.round = o.round%math.MaxUint8 + 1 // a socket keeps 8 bits of it
	seen := o.coll.Variables[bindings.NetworkVarSocketsSeen]
	err := errors.Join(seen.Set(uint32(0)), o.coll.Variables[bindings.NetworkVarListedSeen].Set(uint32(0)), o.coll.Variables[bindings.NetworkVarCountingRound].Set(o.round))
	var over *ebpf.Map
	if !o.features.listed {
		over = o.coll.Maps[bindings.NetworkMapNetworkSockets]
	}
	if err == nil {
		err = kernel.Iterate(o.coll.Programs[o.features.counts()], over)
	}
	var n uint32
	if err == nil {
		err = seen.Get(&n)
	}
	if err == nil && o.features.listed {
		var listed uint32
		listed, err = o.countListed()
		o.listed.Store(uint64(listed))
		n += listed
	}
	if err == nil {
		err = o.coll.Variables[bindings.NetworkVarSocketsKnown].Set(n)
	}
	if err != nil {
		return fmt.Errorf("counting sockets: %w", err)
	}
	o.sockets.Store(uint64(n))
	return nil
}
