// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package lifecycle

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// EventType says what happened to a process.
type EventType uint32

// Events of a process's life.
const (
	Fork = EventType(bindings.ProcessProcessEventTypePROCESS_FORK)
	Exec = EventType(bindings.ProcessProcessEventTypePROCESS_EXEC)
	Exit = EventType(bindings.ProcessProcessEventTypePROCESS_EXIT)
	// Ask means that an observation has met a process of which it does not know
	// whether it is in scope.
	Ask = EventType(bindings.ProcessProcessEventTypePROCESS_ASK)
)

// Event is one event of a process's life.
type Event struct {
	Type EventType
	// PID is the thread group id.
	PID uint32
	// ParentPID is the thread group id of the parent, of a Fork only.
	ParentPID uint32
	// StartBoottime is when the process started, in nanoseconds of CLOCK_BOOTTIME.
	StartBoottime uint64
	// ExecID tells the programs that a process runs one after the other apart.
	ExecID uint32
	// Comm is the name of the task that caused the event: of an Exec the new one,
	// of a Fork the parent's.
	Comm string
}

// eventSize is the size of struct process_event.
const (
	eventSize  = 40
	commOffset = 24
)

// Losses counts what the shared maps could not take.
type Losses struct {
	// RingFull counts events that were dropped.
	RingFull uint64
	// ScopeFull counts samples of processes that found no place in the scope map;
	// the samples themselves are kept.
	ScopeFull uint64
}

// Tracker holds the programs and maps of process.bpf.c.
type Tracker struct {
	coll   *ebpf.Collection
	links  []link.Link
	reader *ringbuf.Reader
	record ringbuf.Record
	bytes  uint64 // of the maps
}

// Start loads and attaches. processes bounds the map of scopes.
func Start(loader *kernel.Loader, processes uint32) (_ *Tracker, err error) {
	spec, err := bindings.LoadProcess()
	if err != nil {
		return nil, fmt.Errorf("reading the process programs: %w", err)
	}
	spec.Maps[bindings.ProcessMapScope].MaxEntries = processes
	coll, err := loader.Load("the process programs", spec, nil)
	if err != nil {
		return nil, err
	}
	t := &Tracker{coll: coll}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	t.bytes = kernel.MapBytes(coll.Maps, nil)
	// The reader is there before the first event, so that none is missed.
	if t.reader, err = ringbuf.NewReader(coll.Maps[bindings.ProcessMapProcessEvents]); err != nil {
		return nil, fmt.Errorf("reading process events: %w", err)
	}
	for name, program := range coll.Programs {
		attached, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return nil, fmt.Errorf("attaching %s: %w", name, err)
		}
		t.links = append(t.links, attached)
	}
	return t, nil
}

// SharedMaps returns the maps that other objects use instead of their own, by
// name.
func (t *Tracker) SharedMaps() map[string]*ebpf.Map {
	shared := map[string]*ebpf.Map{}
	for _, name := range []string{
		bindings.ProcessMapScope, bindings.ProcessMapProcessEvents, bindings.ProcessMapProcessLosses,
	} {
		shared[name] = t.coll.Maps[name]
	}
	return shared
}

// Programs returns what is attached, by name.
func (t *Tracker) Programs() map[string]*ebpf.Program { return t.coll.Programs }

// Scope is a set of kinds of observation that a process is in scope of.
type Scope uint32

// Kinds of observation as bits of a Scope.
const (
	ScopeNone     Scope = 0
	ScopeOnCPU          = Scope(bindings.ProcessScopeBitSCOPE_ON_CPU)
	ScopeOffCPU         = Scope(bindings.ProcessScopeBitSCOPE_OFF_CPU)
	ScopeMemory         = Scope(bindings.ProcessScopeBitSCOPE_MEMORY)
	ScopeNetwork        = Scope(bindings.ProcessScopeBitSCOPE_NETWORK)
	ScopeMonitors       = Scope(bindings.ProcessScopeBitSCOPE_MONITORS)
	// ScopeTask and the seven bits above it are observations that tasks have started.
	ScopeTask = Scope(bindings.ProcessScopeBitSCOPE_TASK)
)

// Decide writes into the kernel which observations a process is in scope of.
func (t *Tracker) Decide(pid uint32, scope Scope) error {
	return t.decide(pid, bindings.ProcessScopeEntry{Bits: uint32(scope)}, ebpf.UpdateAny)
}

// Answer is Decide for a program that the kernel has asked about, by the number of its
// exec; space is where its unwind tables are, 0 when it has none. Where an exec or the
// exit has made the question void in the meantime, nothing is written: the next
// sample asks again.
func (t *Tracker) Answer(pid, execID uint32, scope Scope, space uint32) error {
	var asked bindings.ProcessScopeEntry
	err := t.scope().Lookup(pid, &asked)
	if err == nil && asked.ExecId == execID {
		err = t.decide(pid, bindings.ProcessScopeEntry{Bits: uint32(scope), Space: space, ExecId: execID}, ebpf.UpdateExist)
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// Ask notes that a program is being read, as the kernel does when it meets one;
// false when it has an entry.
func (t *Tracker) Ask(pid, execID uint32) (bool, error) {
	asked := bindings.ProcessScopeEntry{Bits: uint32(bindings.ProcessScopeBitSCOPE_ASKED), ExecId: execID}
	err := t.scope().Update(pid, asked, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("noting that process %d is read: %w", pid, err)
	}
	return true, nil
}

// Knows tells whether a process has an entry in the kernel; without one its next sample asks.
func (t *Tracker) Knows(pid uint32) bool {
	var entry bindings.ProcessScopeEntry
	return t.scope().Lookup(pid, &entry) == nil
}

func (t *Tracker) decide(pid uint32, value bindings.ProcessScopeEntry, flags ebpf.MapUpdateFlags) error {
	value.Bits |= uint32(bindings.ProcessScopeBitSCOPE_DECIDED)
	if err := t.scope().Update(pid, value, flags); err != nil {
		return fmt.Errorf("writing the scope of process %d: %w", pid, err)
	}
	return nil
}

// Forget removes what was decided about a process: its next sample asks again.
func (t *Tracker) Forget(pid uint32) error {
	if err := t.scope().Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("removing the scope of process %d: %w", pid, err)
	}
	return nil
}

// Void is Forget for one program of a process, by the number of its exec: what is asked or
// was decided about another one stays.
func (t *Tracker) Void(pid, execID uint32) error {
	var known bindings.ProcessScopeEntry
	err := t.scope().Lookup(pid, &known)
	switch {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("reading the scope of process %d: %w", pid, err)
	case known.ExecId != execID:
		return nil
	}
	return t.Forget(pid)
}

// Decided returns the processes that have an entry in the scope map, without forks
// that nobody has asked about: their entries go with them.
func (t *Tracker) Decided() ([]uint32, error) {
	var pid uint32
	var state bindings.ProcessScopeEntry
	var pids []uint32
	entries := t.scope().Iterate()
	for entries.Next(&pid, &state) {
		if state.Bits&uint32(bindings.ProcessScopeBitSCOPE_FORKED) == 0 {
			pids = append(pids, pid)
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("listing the scope map: %w", err)
	}
	return pids, nil
}

func (t *Tracker) scope() *ebpf.Map { return t.coll.Maps[bindings.ProcessMapScope] }

// ErrFlushed is returned by Read when what was pending at a Flush has been read.
var ErrFlushed = ringbuf.ErrFlushed

// Read waits for the next event. Events other than Ask do not end the wait
// before the next Ask or Flush. The error is os.ErrClosed after Close.
func (t *Tracker) Read() (Event, error) {
	if err := t.reader.ReadInto(&t.record); err != nil {
		return Event{}, err
	}
	return parseEvent(t.record.RawSample)
}

// Flush makes Read return everything that is pending, then ErrFlushed.
func (t *Tracker) Flush() error { return t.reader.Flush() }

// parseEvent reads struct process_event.
func parseEvent(raw []byte) (Event, error) {
	if len(raw) < eventSize {
		return Event{}, fmt.Errorf("reading a process event: %d bytes, want %d", len(raw), eventSize)
	}
	return Event{
		StartBoottime: binary.NativeEndian.Uint64(raw),
		Type:          EventType(binary.NativeEndian.Uint32(raw[8:])),
		PID:           binary.NativeEndian.Uint32(raw[12:]),
		ParentPID:     binary.NativeEndian.Uint32(raw[16:]),
		ExecID:        binary.NativeEndian.Uint32(raw[20:]),
		Comm:          unix.ByteSliceToString(raw[commOffset:eventSize]),
	}, nil
}

// Losses sums the loss counters over all CPUs.
func (t *Tracker) Losses() (Losses, error) {
	full, err := t.loss(bindings.ProcessProcessLossPROCESS_LOST_RING_FULL)
	if err != nil {
		return Losses{}, err
	}
	scope, err := t.loss(bindings.ProcessProcessLossPROCESS_LOST_SCOPE_FULL)
	if err != nil {
		return Losses{}, err
	}
	return Losses{RingFull: full, ScopeFull: scope}, nil
}

func (t *Tracker) loss(reason bindings.ProcessProcessLoss) (uint64, error) {
	var perCPU []uint64
	if err := t.coll.Maps[bindings.ProcessMapProcessLosses].Lookup(uint32(reason), &perCPU); err != nil {
		return 0, fmt.Errorf("reading lost process events: %w", err)
	}
	var sum uint64
	for _, n := range perCPU {
		sum += n
	}
	return sum, nil
}

// MapBytes is the memory of the maps, in bytes.
func (t *Tracker) MapBytes() uint64 { return t.bytes }

// StopReading makes Read return os.ErrClosed, now and from then on.
func (t *Tracker) StopReading() error {
	if t.reader == nil {
		return nil
	}
	if err := t.reader.Close(); err != nil {
		return fmt.Errorf("closing the reader of process events: %w", err)
	}
	return nil
}

// Close detaches and unloads everything.
func (t *Tracker) Close() error {
	errs := []error{t.StopReading()}
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.coll.Close()
	return errors.Join(errs...)
}
