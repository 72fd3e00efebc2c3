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

// storageIterator records whether the running kernel takes a program that iterates over socket storage. Kernels refuse it whatever their
// version and type information are, so that only loading it shows that.
type storageIterator struct {
	mu             sync.Mutex
	known, refused bool
}

// socketStorageIterator is that of the running kernel.
var socketStorageIterator storageIterator

// transient are the errors of a load that say nothing about the kernel.
var transient = []error{kernel.ErrGivenUp, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN}

// listsSockets reports whether TCP sockets are to be listed: no program can iterate over socket storage.
func (f features) listsSockets(load loadProgram, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map, log *zap.Logger) (bool, error) {
	if f.listed || !f.socketStorage {
		return true, nil
	}
	return socketStorageIterator.isRefused(load, spec, shared, log)
}

// isRefused loads the program once and logs why it was refused. It returns an error if that says nothing about the kernel.
func (i *storageIterator) isRefused(load loadProgram, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map, log *zap.Logger) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known {
		return i.refused, nil
	}
	coll, err := load("the program that counts sockets", withOneProgram(spec, bindings.NetworkProgCountSocket), shared)
	if slices.ContainsFunc(transient, func(cause error) bool { return errors.Is(err, cause) }) {
		return false, err
	}
	i.known, i.refused = true, err != nil
	if err != nil {
		log.Info("Open TCP sockets are counted by a list, which takes more memory: the kernel refuses the iterator over socket storage", zap.Error(err))
		return true, nil
	}
	coll.Close()
	return false, nil
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

// countListed adds the listed sockets to the open sockets of their series; it returns their number.
func (o *Observer) countListed() (n uint32, err error) {
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
			o.listed.Store(uint64(n))
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("reading the listed sockets: %w", err)
		}
	}
}
