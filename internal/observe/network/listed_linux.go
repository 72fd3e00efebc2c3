// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

type listedSocket = bindings.NetworkNetworkListedSocket

// listedAtOnce is how many listed sockets are read by one call.
const listedAtOnce = 1024

// listReader has the buffers by which the list of sockets is read.
type listReader struct {
	keys    []uint64
	sockets []listedSocket
}

// loadProgram is [kernel.Loader.Load].
type loadProgram func(what string, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (*ebpf.Collection, error)

// trial records whether the running kernel takes a program. Kernels refuse some whatever their version and type information are, so that only
// loading it shows that.
type trial struct {
	program string
	mu      sync.Mutex
	done    bool
	refused error
}

// The programs that are tried.
var (
	storageIterator = trial{program: bindings.NetworkProgCountSocket}
	listIterator    = trial{program: bindings.NetworkProgCountFileAndList}
)

// transient are the errors of a load that say nothing about the kernel.
var transient = []error{kernel.ErrGivenUp, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN}

// isRefused loads the program of spec once, and logs why it was refused. It returns an error if that says nothing about the kernel. Concurrent
// calls do not wait for each other.
func (t *trial) isRefused(load loadProgram, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map, log *zap.Logger) (bool, error) {
	if done, refused := t.result(); done {
		return refused, nil
	}
	coll, err := load("the program that counts sockets", withOneProgram(spec, t.program), shared)
	if slices.ContainsFunc(transient, func(cause error) bool { return errors.Is(err, cause) }) {
		return false, err
	}
	if err == nil {
		coll.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done && err != nil {
		log.Info("Open sockets are counted in another way: the kernel refuses the program "+t.program, zap.Error(err))
	}
	t.done, t.refused = true, err
	return err != nil, nil
}

func (t *trial) result() (done, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done, t.refused != nil
}

// countingBy returns the features with the way by which open sockets are counted.
func (f features) countingBy(load loadProgram, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map, log *zap.Logger) (features, error) {
	var err error
	if !f.listed && f.socketStorage {
		if f.listed, err = storageIterator.isRefused(load, spec, shared, log); err != nil {
			return f, err
		}
	} else {
		f.listed = true
	}
	if !f.listed || !f.iteratesMaps {
		return f, nil
	}
	for name, value := range map[string]bool{bindings.NetworkVarSocketStorage: f.socketStorage, bindings.NetworkVarSocketsListed: true} {
		if err := spec.Variables[name].Set(value); err != nil {
			return f, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	refused, err := listIterator.isRefused(load, spec, shared, log)
	f.iteratesMaps = !refused
	return f, err
}

// withOneProgram returns an object with one program of another object and the maps that it uses.
func withOneProgram(spec *ebpf.CollectionSpec, name string) *ebpf.CollectionSpec {
	program, uses := spec.Programs[name], map[string]*ebpf.MapSpec{}
	for _, ins := range program.Instructions {
		if m := spec.Maps[ins.Reference()]; m != nil && ins.IsLoadFromMap() {
			uses[m.Name] = m
		}
	}
	return &ebpf.CollectionSpec{Maps: uses, Programs: map[string]*ebpf.ProgramSpec{name: program}, Types: spec.Types, ByteOrder: spec.ByteOrder}
}

// countListed returns the number of listed sockets. It adds them to the open sockets of their series, if no program has.
func (o *Observer) countListed() (n uint32, err error) {
	if o.features.iteratesMaps {
		return n, o.coll.Variables[bindings.NetworkVarListedSeen].Get(&n)
	}
	list, slots, into := o.coll.Maps[bindings.NetworkMapNetworkListedSockets], o.table.slots.items, &o.list
	if into.keys == nil {
		into.keys, into.sockets = make([]uint64, listedAtOnce), make([]listedSocket, listedAtOnce)
	}
	var cursor ebpf.MapBatchCursor
	for {
		read, err := list.BatchLookup(&cursor, into.keys, into.sockets, nil)
		for _, s := range into.sockets[:read] {
			if int(s.Series) < len(slots) && s.State < states && slots[s.Series].Generation == s.Generation {
				slots[s.Series].Open[s.State]++
			}
		}
		n += uint32(read)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("reading the listed sockets: %w", err)
		}
	}
}
