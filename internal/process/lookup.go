// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Lookup returns a process and whether it is in scope. Out of scope, the process is nil. What is not known yet is read from /proc now. A
// process that exited a moment ago can still be looked up if it was in scope. If it was never looked up while it ran, only what it shares
// with its parent and what its exec event contains is known. The error is [ErrGone] when there is no such process, or what could not be read.
func (t *Table) Lookup(id model.ProcessID) (p *model.Process, inScope bool, err error) {
	if p, inScope, known := t.known(id); known {
		return p, inScope, nil
	}
	if p, inScope, known := t.late(id); known {
		return p, inScope, nil
	}
	v, err := t.readNow(id)
	return v.process, v.inScope, err
}

// readNow reads a process now. If it has exited meanwhile, there is no reading.
func (t *Table) readNow(id model.ProcessID) (verdict, error) {
	v, err := t.evaluate(id)
	t.notify()
	if errors.Is(err, ErrGone) {
		if p, inScope, known := t.late(id); known {
			return verdict{process: p, inScope: inScope}, nil
		}
	}
	return v, err
}

// LookupPID is [Table.Lookup] of the process that has the pid now.
func (t *Table) LookupPID(pid uint32) (p *model.Process, inScope bool, err error) {
	dir, err := t.fs.open(pid)
	if err != nil {
		return nil, false, err
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	s, err := t.fs.stat(dir, pid, "stat", *buffer)
	if err != nil {
		return nil, false, err
	}
	return t.Lookup(model.ProcessID{PID: pid, StartTicks: s.startTicks})
}

// find returns a process that runs or lingers.
func (t *Table) find(id model.ProcessID) *entry {
	if e := t.get(id); e != nil {
		return e
	}
	return t.lingering[id]
}

// known answers from memory.
func (t *Table) known(id model.ProcessID) (p *model.Process, inScope, known bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.get(id)
	switch {
	case e == nil:
		e = t.lingering[id]
		if e == nil || e.undecided || e.inScope && e.process == nil {
			return nil, false, false
		}
		return e.process, e.inScope, true
	case e.undecided, e.inScope && e.process == nil:
		return nil, false, false
	}
	return e.process, e.inScope, true
}

// late describes a process that exited before it was read. The result is unknown if the process is, or if it is undecided whether it was in
// scope. It is unknown, too, if an exec event was read since its exit was found: what lingers is the program before.
func (t *Table) late(id model.ProcessID) (p *model.Process, inScope, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.lingering[id]
	if e == nil || t.get(id) != nil {
		return nil, false, false
	}
	if e.undecided {
		t.decideLate(e)
	}
	if e.inScope && e.process == nil {
		e.describe(t.infer(e))
		if !e.kernel && e.ranAnother() && e.execution.lacksEnvironment() {
			t.missEnvironment(e)
		}
	}
	return e.process, e.inScope, !e.undecided
}

// decideLate decides about a process that exited before it was read, if its exec event contains enough.
func (t *Table) decideLate(e *entry) {
	p, service := t.inferSelf(e)
	inScope, include, known := t.rules.decideWithout(&candidate{process: p, service: service}, t.unknownOf(e, p))
	e.undecided = !known
	if known {
		e.inScope, e.include = inScope, include
	}
}

// unknownOf returns the conditions of which it is unknown whether a process that exited before it was read fulfilled them.
func (t *Table) unknownOf(e *entry, p *model.Process) fieldSet {
	unknown := fieldPort
	other := e.ranAnother()
	if p.Executable == "" {
		unknown |= fieldExe
	}
	if p.Arguments == nil || other && e.execution.cut {
		unknown |= fieldCmdline
	}
	if p.ContainerID == "" && p.PodUID == "" {
		unknown |= fieldContainer | fieldPod // it may have been moved into one before its exec
	}
	if other && e.execution.lacksEnvironment() {
		unknown |= fieldService
	}
	return unknown
}

// ranAnother reports whether a process ran another program than its parent, or may have.
func (e *entry) ranAnother() bool { return e.executed || e.base == nil }

// missEnvironment counts once for each program that its environment is not known. The caller holds the lock.
func (t *Table) missEnvironment(e *entry) {
	if !e.environmentMissed {
		e.environmentMissed = true
		t.stats.EnvironmentUnknown++
	}
}

// gone is the error for a process that does not exist.
func gone(id model.ProcessID) error {
	return fmt.Errorf("process %d (started at tick %d): %w", id.PID, id.StartTicks, ErrGone)
}
