// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Lookup returns a process and whether it is in scope. Out of scope, the
// process is nil. What is not known yet is read from /proc now. A process that
// ended a moment ago can still be looked up if it was in scope; of one that
// nobody looked up while it ran, only what it shares with its parent is known,
// and its comm. The error is [ErrGone] when there is no such process, or says
// what could not be read.
func (t *Table) Lookup(id model.ProcessID) (p *model.Process, inScope bool, err error) {
	if p, inScope, known := t.known(id); known {
		return p, inScope, nil
	}
	if p := t.late(id); p != nil {
		return p, true, nil
	}
	v, err := t.look(id)
	return v.process, v.inScope, err
}

// look reads a process now. Of one that has ended meanwhile there is no reading.
func (t *Table) look(id model.ProcessID) (verdict, error) {
	v, err := t.evaluate(id)
	t.tell()
	if errors.Is(err, ErrGone) {
		if p := t.late(id); p != nil {
			return verdict{process: p, inScope: true}, nil
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
		if e == nil || e.process == nil {
			return nil, false, false
		}
		return e.process, true, true
	case e.undecided, e.inScope && e.process == nil:
		return nil, false, false
	}
	return e.process, e.inScope, true
}

// late describes a process that ended before it was read; nil if it is not
// known at all.
func (t *Table) late(id model.ProcessID) *model.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.lingering[id]
	if e == nil {
		return nil
	}
	if e.process == nil {
		e.describe(t.infer(e))
	}
	return e.process
}

// gone is the error for a process that is not there.
func gone(id model.ProcessID) error {
	return fmt.Errorf("process %d (started at tick %d): %w", id.PID, id.StartTicks, ErrGone)
}
