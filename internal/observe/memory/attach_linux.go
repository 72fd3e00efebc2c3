// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory/allocator"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// maxBinaries bounds the binaries whose allocating functions are remembered.
const maxBinaries = 4096

// binaries remembers the allocating functions of binaries, by content.
type binaries map[string][]allocator.Function

// of returns the functions of a region's binary. One that cannot be read for what
// it is has none; the error is then told once.
func (b *binaries) of(r symbol.Region, file *symbol.RegionFile) (_ []allocator.Function, err error) {
	if known, ok := (*b)[r.Content]; ok {
		return known, nil
	}
	image, closeFile, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	functions, err := allocator.Find(image)
	if err != nil {
		err = fmt.Errorf("looking for an allocator in %s: %w", r.Path(), err)
	}
	if *b == nil || len(*b) >= maxBinaries {
		*b = binaries{} // they are found again
	}
	(*b)[r.Content] = functions
	return functions, err
}

// attach attaches to the functions of a file in a process. What fails is counted.
func (a *attacher) attach(t *target, r symbol.Region) *attachment {
	made := &attachment{}
	file, err := t.space.HoldRegion(r)
	if err != nil {
		if !errors.Is(err, symbol.ErrProcessExited) && !errors.Is(err, symbol.ErrNoFile) {
			a.fail(t, r, err)
		}
		return made
	}
	defer file.Close() //nolint:errcheck // an O_PATH descriptor: nothing is lost
	functions, err := a.binaries.of(r, file)
	if err != nil {
		a.fail(t, r, err)
	}
	var offsets [allocator.Calls][]uint64
	for _, f := range functions {
		if f.Call == allocator.Release && !a.config.Live {
			continue
		}
		offsets[f.Call] = append(offsets[f.Call], f.Offset)
	}
	for call, at := range offsets {
		if err := a.attachCall(made, allocator.Call(call), file.Path(), at, t.id.PID); err != nil {
			a.fail(t, r, err)
		}
	}
	a.functions.Add(int64(made.functions))
	return made
}

// fail counts what could not be attached to, and tells of it now and then. A
// process that has ended meanwhile is no failure.
func (a *attacher) fail(t *target, r symbol.Region, err error) {
	if errors.Is(err, unix.ESRCH) {
		return
	}
	a.lose(fmt.Errorf("attaching to the allocator in %s of process %d: %w", r.Path(), t.id.PID, err))
}

func (a *attacher) lose(err error) {
	a.failed.Add(1)
	a.warnings.Warn(err)
}

// attachCall attaches to the functions of one kind. Where not all of them can be
// attached to at once, each is tried by itself.
func (a *attacher) attachCall(made *attachment, call allocator.Call, path string, offsets []uint64, pid uint32) error {
	if len(offsets) == 0 {
		return nil
	}
	err := a.attachAt(made, call, path, offsets, pid)
	if err == nil || len(offsets) == 1 {
		return err
	}
	var errs []error
	for _, offset := range offsets {
		errs = append(errs, a.attachAt(made, call, path, []uint64{offset}, pid))
	}
	return errors.Join(errs...)
}

// inSession says that a function's return is awaited by the program that is run at its entry. No return address of Go's may be
// changed, and a session of one process changes those of all processes that run the same program.
func inSession(call allocator.Call) bool { return call != allocator.Go }

func (a *attacher) attachAt(made *attachment, call allocator.Call, path string, offsets []uint64, pid uint32) error {
	kind := kernel.UprobeEntry
	if a.session && inSession(call) {
		kind = kernel.UprobeSession
	}
	probe, err := a.probes.Attach(kind, a.coll.Programs[entryPrograms[call]], path, offsets, pid)
	if err != nil {
		return err
	}
	made.probes = append(made.probes, probe)
	if returns := a.config.Live && !a.session && call != allocator.Release && call != allocator.Go; returns {
		program := a.coll.Programs[bindings.MemoryMallocProgReturned]
		if probe, err = a.probes.Attach(kernel.UprobeReturn, program, path, offsets, pid); err != nil {
			return err
		}
		made.probes = append(made.probes, probe)
	}
	made.functions += len(offsets)
	return nil
}
