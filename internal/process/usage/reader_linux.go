// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usage

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// ErrFull: the capacity for processes is exhausted.
var ErrFull = errors.New("the map of processes is full")

// Usage is what a process has used since it began.
type Usage struct {
	// CPU is that of all its threads, those that have ended included.
	CPU time.Duration
	// Threads are those that run, and those that have exited and are not reaped.
	Threads int
}

// Reader reads the processes that were added to it. Its methods may be called from any goroutine.
type Reader struct {
	coll     *ebpf.Collection
	iterator *kernel.Iterator
	memory   []byte
	usages   []bindings.UsageProcessUsage
	bytes    uint64

	mu    sync.Mutex // all below, and memory
	pass  uint32
	slots map[uint32]slot // by pid
	free  []uint32
}

// slot is where a process's usage is written.
type slot struct {
	id model.ProcessID
	at uint32
}

// Open loads the program. processes is how many can be read.
func Open(loader *kernel.Loader, processes uint32) (_ *Reader, err error) {
	spec, err := bindings.LoadUsage()
	if err != nil {
		return nil, fmt.Errorf("reading the program that reads processes: %w", err)
	}
	spec.Maps[bindings.UsageMapUsagePlaces].MaxEntries = processes
	spec.Maps[bindings.UsageMapProcessUsages].MaxEntries = processes
	r := &Reader{slots: map[uint32]slot{}}
	if r.coll, err = loader.Load("the program that reads processes", spec, nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	const size = int(unsafe.Sizeof(bindings.UsageProcessUsage{}))
	if r.memory, err = kernel.MapArray(r.coll.Maps[bindings.UsageMapProcessUsages], size*int(processes)); err != nil {
		return nil, fmt.Errorf("mapping what processes use: %w", err)
	}
	r.usages = unsafe.Slice((*bindings.UsageProcessUsage)(unsafe.Pointer(&r.memory[0])), processes)
	if r.iterator, err = kernel.NewIterator(r.coll.Programs[bindings.UsageProgReadUsage], nil); err != nil {
		return nil, err
	}
	r.bytes = kernel.MapBytes(r.coll.Maps, nil)
	for at := range processes {
		r.free = append(r.free, processes-1-at)
	}
	return r, nil
}

// Add reads a process from the next Read on. A process that had its pid before has exited.
func (r *Reader) Add(id model.ProcessID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.slots[id.PID]; ok {
		r.slots[id.PID] = slot{id: id, at: old.at}
		return nil
	}
	if len(r.free) == 0 {
		return fmt.Errorf("reading what process %d uses: %w", id.PID, ErrFull)
	}
	at := r.free[len(r.free)-1]
	r.usages[at] = bindings.UsageProcessUsage{}
	if err := r.coll.Maps[bindings.UsageMapUsagePlaces].Put(id.PID, at); err != nil {
		return fmt.Errorf("reading what process %d uses: %w", id.PID, err)
	}
	r.free = r.free[:len(r.free)-1]
	r.slots[id.PID] = slot{id: id, at: at}
	return nil
}

// Remove stops reading a process.
func (r *Reader) Remove(id model.ProcessID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.slots[id.PID]
	if !ok || was.id != id {
		return nil
	}
	delete(r.slots, id.PID)
	r.free = append(r.free, was.at)
	err := r.coll.Maps[bindings.UsageMapUsagePlaces].Delete(id.PID)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("reading what process %d uses no more: %w", id.PID, err)
	}
	return nil
}

// Read reads all processes.
func (r *Reader) Read() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pass++; r.pass == 0 {
		r.pass++ // that of processes that were never read
	}
	if err := r.coll.Variables[bindings.UsageVarUsagePass].Set(r.pass); err != nil {
		return fmt.Errorf("reading what processes use: %w", err)
	}
	return r.iterator.Run()
}

// Of is what a process had used at the last Read; false if it was not there.
func (r *Reader) Of(id model.ProcessID) (Usage, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	where, ok := r.slots[id.PID]
	if !ok || where.id != id {
		return Usage{}, false
	}
	u := &r.usages[where.at]
	if u.Pass != r.pass || model.StartTicks(u.StartBoottime) != id.StartTicks {
		return Usage{}, false
	}
	return Usage{CPU: time.Duration(u.Cpu), Threads: int(u.Threads)}, true
}

// Programs are those that run when it reads.
func (r *Reader) Programs() map[string]*ebpf.Program { return r.coll.Programs }

// MapBytes is the memory of the maps.
func (r *Reader) MapBytes() uint64 { return r.bytes }

// Close frees everything.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if r.iterator != nil {
		errs = append(errs, r.iterator.Close())
	}
	if r.memory != nil {
		errs = append(errs, unix.Munmap(r.memory))
		r.memory, r.usages = nil, nil
	}
	r.coll.Close()
	return errors.Join(errs...)
}
