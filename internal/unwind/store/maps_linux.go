// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// Kernel is a Store whose memory BPF programs see.
type Kernel struct {
	*Store
	chunks, rules *ebpf.Map
	spec          *ebpf.MapSpec // of a chunk
	offering      *kernel.Offering

	// Guarded by the lock of Store.
	inner  map[uint16]*ebpf.Map
	mapped [][]byte
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
	k := &Kernel{spec: chunkSpec.InnerMap, offering: kernel.NewOffering(), inner: map[uint16]*ebpf.Map{}}
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
	rules, err := mapped(k.rules, maxRules*ruleBytes)
	if err != nil {
		return nil, err
	}
	k.mapped = append(k.mapped, rules)
	k.Store = newStore(memory{grow: k.grow, rules: rules, settle: k.settle}, maxChunks)
	return k, nil
}

// SharedMaps returns the maps that other objects use instead of their own, by
// name.
func (k *Kernel) SharedMaps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{bindings.OnCPUMapUnwindChunks: k.chunks, bindings.OnCPUMapUnwindRules: k.rules}
}

// grow makes a chunk that programs find. Store calls it with its lock held.
func (k *Kernel) grow(id uint16) ([]byte, error) {
	m, err := ebpf.NewMap(k.spec)
	if err != nil {
		return nil, fmt.Errorf("creating a map of unwind tables: %w", err)
	}
	shared, err := mapped(m, chunkBytes)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := k.offering.Put(k.chunks, uint32(id), m); err != nil {
		return nil, errors.Join(fmt.Errorf("offering a map of unwind tables: %w", err), unix.Munmap(shared), m.Close())
	}
	k.inner[id] = m
	k.mapped = append(k.mapped, shared)
	return shared, nil
}

// settle waits until all running programs have ended: updating a map of maps does (kernel/bpf/syscall.c, maybe_wait_bpf_programs).
func (k *Kernel) settle() error {
	return k.chunks.Put(uint32(1), k.inner[1])
}

func mapped(m *ebpf.Map, size int) ([]byte, error) {
	shared, err := kernel.MapArray(m, size)
	if err != nil {
		return nil, fmt.Errorf("mapping unwind tables: %w", err)
	}
	return shared, nil
}

// Close frees the maps. No program may use them any more.
func (k *Kernel) Close() error {
	k.offering.Wait()
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
