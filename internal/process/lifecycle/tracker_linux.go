// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package lifecycle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// EventType is what happened to a process.
type EventType uint32

// Events of a process's life.
const (
	Fork = EventType(bindings.ProcessProcessEventTypePROCESS_FORK)
	Exec = EventType(bindings.ProcessProcessEventTypePROCESS_EXEC)
	Exit = EventType(bindings.ProcessProcessEventTypePROCESS_EXIT)
	// Ask: an observation has sampled a process and does not know whether it is in scope.
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
	// ExecID distinguishes the programs that a process runs one after the other.
	ExecID uint32
	// Comm is the name of the task that caused the event: of an Exec the new one, of a Fork the parent's.
	Comm string
	// Executable is the path of the program of an Exec, as /proc/PID/exe shows it; empty where it could not be read.
	Executable string
	// Arguments are those of the program of an Exec, as /proc/PID/cmdline shows them; ArgumentsCut: there may be more.
	Arguments    []byte
	ArgumentsCut bool
	// Environment has the variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of an Exec, as /proc/PID/environ shows them.
	Environment []byte
	// EnvironmentWhole: the program has neither variable apart from those in Environment.
	EnvironmentWhole bool
}

// eventSize is the size of struct process_event, textOffset the offset of the text of struct process_exec.
const (
	eventSize  = 40
	commOffset = 24
	textOffset = eventSize + 8
)

// maxArguments is how many bytes of arguments an Exec has at most: EXECUTABLE_ARGUMENTS.
const maxArguments = 1024

// Losses counts what did not fit into the shared maps.
type Losses struct {
	// RingFull counts events that were dropped.
	RingFull uint64
	// ScopeFull counts samples of processes for which the scope map had no free entry; the samples themselves are kept.
	ScopeFull uint64
}

// Tracker holds the programs and maps of process.bpf.c.
type Tracker struct {
	coll   *ebpf.Collection
	links  []link.Link
	reader *ringbuf.Reader
	record ringbuf.Record
	bytes  uint64 // of the maps
	less   error  // why programs are not read at their exec
}

// Start loads and attaches. processes bounds the map of scopes.
func Start(loader *kernel.Loader, processes uint32) (_ *Tracker, err error) {
	spec, err := bindings.LoadProcess()
	if err != nil {
		return nil, fmt.Errorf("reading the process programs: %w", err)
	}
	spec.Maps[bindings.ProcessMapScope].MaxEntries = processes
	coll, less, err := load(loader.Load, spec)
	if err != nil {
		return nil, err
	}
	t := &Tracker{coll: coll, less: less}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	t.bytes = kernel.MapBytes(coll.Maps, nil)
	// The reader exists before the first event, so that none is missed.
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

// loading is the type of [kernel.Loader.Load].
type loading func(what string, spec *ebpf.CollectionSpec, replaced map[string]*ebpf.Map) (*ebpf.Collection, error)

// load loads the programs, without reading programs at their exec if that is what the kernel refuses; less is the reason then.
func load(do loading, spec *ebpf.CollectionSpec) (coll *ebpf.Collection, less, err error) {
	const what = "the process programs"
	plain := spec.Copy()
	coll, err = do(what, spec, nil)
	if err == nil {
		return coll, nil, nil
	}
	if plain.Variables[bindings.ProcessVarReadEnvironment].Set(false) != nil {
		return nil, nil, err
	}
	if coll, plainErr := do(what, plain, nil); plainErr == nil {
		return coll, fmt.Errorf("reading the executable, arguments and environment of programs at their exec: %w; a process that ends before it is read "+
			"from /proc is reported as unknown_service, and not at all where targets select by more than its name", err), nil
	}
	return nil, nil, err
}

// Degraded is why programs are not read at their exec, or nil.
func (t *Tracker) Degraded() error { return t.less }

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

// Answer is Decide for a program that the kernel has asked about, by the number of its exec. space is that of its unwind tables, 0 if it has
// none. If an exec or the exit has made the question void in the meantime, nothing is written: the next sample asks again.
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

// Ask records that a program is being read, as the kernel does at its first sample; false when it has an entry.
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

// Knows reports whether a process has an entry in the kernel; without one its next sample asks.
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

// Forget removes the decision about a process: its next sample asks again.
func (t *Tracker) Forget(pid uint32) error {
	if err := t.scope().Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("removing the scope of process %d: %w", pid, err)
	}
	return nil
}

// Void is Forget for one program of a process, by the number of its exec: an entry of another program stays.
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

// Decided returns the processes that have an entry in the scope map, except forks that were never asked about: their entries are removed with
// them.
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

// parseEvent reads struct process_event, and of an exec struct process_exec.
func parseEvent(raw []byte) (Event, error) {
	if len(raw) < eventSize {
		return Event{}, fmt.Errorf("reading a process event: %d bytes, want %d", len(raw), eventSize)
	}
	event := Event{
		StartBoottime: binary.NativeEndian.Uint64(raw),
		Type:          EventType(binary.NativeEndian.Uint32(raw[8:])),
		PID:           binary.NativeEndian.Uint32(raw[12:]),
		ParentPID:     binary.NativeEndian.Uint32(raw[16:]),
		ExecID:        binary.NativeEndian.Uint32(raw[20:]),
		Comm:          unix.ByteSliceToString(raw[commOffset:eventSize]),
	}
	if event.Type == Exec && len(raw) >= textOffset {
		event.setProgram(raw)
	}
	return event, nil
}

// setProgram reads what struct process_exec adds to struct process_event.
func (e *Event) setProgram(raw []byte) {
	e.EnvironmentWhole = binary.NativeEndian.Uint32(raw[eventSize:]) != 0
	path := int(binary.NativeEndian.Uint16(raw[eventSize+4:]))
	arguments := int(binary.NativeEndian.Uint16(raw[eventSize+6:]))
	text := bytes.Clone(raw[textOffset:]) // raw is reused
	path = min(path, len(text))
	e.Executable, text = pathOf(text[:path]), text[path:]
	arguments = min(arguments, len(text))
	e.Arguments, e.Environment = text[:arguments:arguments], text[arguments:]
	e.ArgumentsCut = arguments >= maxArguments
}

// pathOf makes a path of its names, which come in reverse order.
func pathOf(names []byte) string {
	if len(names) == 0 {
		return ""
	}
	list := bytes.Split(bytes.TrimSuffix(names, []byte{0}), []byte{0})
	slices.Reverse(list)
	return "/" + string(bytes.Join(list, []byte{'/'}))
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
