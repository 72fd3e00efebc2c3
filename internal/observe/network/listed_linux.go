// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

type listedSocket = bindings.NetworkNetworkListedSocket

// listedAtOnce is how many listed sockets are read by one call.
const listedAtOnce = 1024

// loadProgram is [kernel.Loader.Load].
type loadProgram func(what string, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (*ebpf.Collection, error)

// storageIterator records whether the running kernel takes a program that iterates over socket storage. Kernels refuse it whatever their
// version and type information are, so that only loading it shows that.
type storageIterator struct {
	mu             sync.Mutex
	known, refused bool
}

var iterator storageIterator

// listsSockets reports whether TCP sockets are to be listed: no program can iterate over socket storage.
func (f features) listsSockets(load loadProgram, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (bool, error) {
	if f.listed || !f.socketStorage {
		return true, nil
	}
	return iterator.isRefused(load, spec, shared)
}

// isRefused loads the program once. It returns an error if nothing is known: loading was cancelled, or too few files can be opened.
func (i *storageIterator) isRefused(load loadProgram, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known {
		return i.refused, nil
	}
	coll, err := load("the program that counts sockets", only(spec, bindings.NetworkProgCountSocket), shared)
	if errors.Is(err, kernel.ErrGivenUp) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return false, err
	}
	i.known, i.refused = true, err != nil
	if err == nil {
		coll.Close()
	}
	return i.refused, nil
}

// only returns an object with one program of another object and the maps that it uses.
func only(spec *ebpf.CollectionSpec, name string) *ebpf.CollectionSpec {
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
	list, slots := o.coll.Maps[bindings.NetworkMapNetworkListedSockets], o.table.slots.items
	keys, sockets := make([]uint64, listedAtOnce), make([]listedSocket, listedAtOnce)
	defer func() { o.listed.Store(uint64(n)) }()
	var cursor ebpf.MapBatchCursor
	for {
		read, err := list.BatchLookup(&cursor, keys, sockets, nil)
		for _, s := range sockets[:read] {
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
