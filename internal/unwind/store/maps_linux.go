// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// ahead is how many chunks are made before they are needed: to offer one to the
// programs takes a grace period of RCU, some 10 ms.
const ahead = 4

// Kernel is a Store whose memory BPF programs see.
type Kernel struct {
	*Store
	chunks, rules *ebpf.Map
	spec          *ebpf.MapSpec // of a chunk
	max           int           // chunks

	// begun are the chunks that are being made or wait to be needed; guarded by the
	// lock of Store.
	begun  map[uint16]*making
	makers sync.WaitGroup

	mu     sync.Mutex // all below
	inner  map[uint16]*ebpf.Map
	mapped [][]byte
}

// making is a chunk that is made beside.
type making struct {
	done   chan struct{} // closed when the rest is true
	memory []byte
	err    error
}

// New makes the maps; maxBytes bounds their memory.
func New(maxBytes uint64) (_ *Kernel, err error) {
	spec, err := bindings.LoadOnCPU()
	if err != nil {
		return nil, fmt.Errorf("reading the unwinder's maps: %w", err)
	}
	ruleSpec, chunkSpec := spec.Maps[bindings.OnCPUMapUnwindRules], spec.Maps[bindings.OnCPUMapUnwindChunks]
	maxChunks := int(max(maxBytes, maxRules*ruleBytes+2*chunkBytes)-maxRules*ruleBytes) / chunkBytes
	maxChunks = min(maxChunks, 1<<16-1)
	ruleSpec.MaxEntries = maxRules
	chunkSpec.MaxEntries = uint32(maxChunks + 1)
	k := &Kernel{spec: chunkSpec.InnerMap, max: maxChunks, begun: map[uint16]*making{}, inner: map[uint16]*ebpf.Map{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Close())
		}
	}()
	if k.rules, err = ebpf.NewMap(ruleSpec); err != nil {
		return nil, fmt.Errorf("creating the map of unwind rules: %w", err)
	}
	if k.chunks, err = ebpf.NewMap(chunkSpec); err != nil {
		return nil, fmt.Errorf("creating the map of unwind tables: %w", err)
	}
	rules, err := k.mmap(k.rules, maxRules*ruleBytes)
	if err != nil {
		return nil, err
	}
	k.Store = newStore(memory{grow: k.grow, rules: rules, settle: k.settle}, maxChunks)
	k.prepare(1)
	return k, nil
}

// SharedMaps returns the maps that other objects use instead of their own, by
// name.
func (k *Kernel) SharedMaps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{bindings.OnCPUMapUnwindChunks: k.chunks, bindings.OnCPUMapUnwindRules: k.rules}
}

// grow returns a chunk and has the next ones made. Store calls it with its lock held.
func (k *Kernel) grow(id uint16) ([]byte, error) {
	k.prepare(id)
	one := k.begun[id]
	<-one.done
	delete(k.begun, id)
	return one.memory, one.err
}

// prepare has a chunk and those after it made, all at once: they wait for the same
// grace period.
func (k *Kernel) prepare(from uint16) {
	for id := int(from); id <= min(int(from)+ahead, k.max); id++ {
		id := uint16(id)
		if k.begun[id] != nil {
			continue
		}
		one := &making{done: make(chan struct{})}
		k.begun[id] = one
		k.makers.Go(func() {
			one.memory, one.err = k.create(id)
			close(one.done)
		})
	}
}

func (k *Kernel) create(id uint16) (shared []byte, err error) {
	m, err := ebpf.NewMap(k.spec)
	if err != nil {
		return nil, fmt.Errorf("creating a map of unwind tables: %w", err)
	}
	if err := k.chunks.Put(uint32(id), m); err != nil {
		return nil, errors.Join(fmt.Errorf("offering a map of unwind tables: %w", err), m.Close())
	}
	if shared, err = k.mmap(m, chunkBytes); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	k.mu.Lock()
	k.inner[id] = m
	k.mu.Unlock()
	return shared, nil
}

// settle waits until all programs that run have ended: updating a map of maps
// does (kernel/bpf/syscall.c, maybe_wait_bpf_programs).
func (k *Kernel) settle() error {
	k.mu.Lock()
	first := k.inner[1]
	k.mu.Unlock()
	return k.chunks.Put(uint32(1), first)
}

// Stats is that of the Store, with the memory of the chunks that are not needed yet.
func (k *Kernel) Stats() Stats {
	out := k.Store.Stats()
	k.mu.Lock()
	defer k.mu.Unlock()
	out.Bytes = uint64(len(k.inner))*chunkBytes + maxRules*ruleBytes
	return out
}

func (k *Kernel) mmap(m *ebpf.Map, size int) ([]byte, error) {
	page := os.Getpagesize()
	shared, err := unix.Mmap(m.FD(), 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping unwind tables: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mapped = append(k.mapped, shared)
	return shared, nil
}

// Close frees the maps, once no program uses them.
func (k *Kernel) Close() error {
	k.makers.Wait()
	var errs []error
	for _, shared := range k.mapped {
		errs = append(errs, unix.Munmap(shared))
	}
	for _, m := range k.inner {
		errs = append(errs, m.Close())
	}
	for _, m := range []*ebpf.Map{k.chunks, k.rules} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
