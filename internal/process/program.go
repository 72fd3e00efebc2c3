// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Program distinguishes the programs that a process runs one after the other. It is made of the addresses of code and stack (fields 26 to 28
// of proc_pid_stat(5)), which the kernel randomizes at each exec. Where it does not, or they may not be read (CAP_SYS_PTRACE), programs can
// look the same. 0 stands for none: a kernel thread, or a process in the middle of an exec.
type Program uint64

// errHidden: no thread of a process shows which program it runs. Mostly it exits.
var errHidden = errors.New("its main thread has ended, and no other one shows its program")

// ProgramOf reads which program a process runs now. The error is [ErrGone] also when an event reported its exit.
func (t *Table) ProgramOf(id model.ProcessID) (Program, error) {
	t.mu.RLock()
	ended := t.recent.has(id)
	t.mu.RUnlock()
	if ended {
		return 0, gone(id)
	}
	dir, err := t.fs.open(id.PID)
	if err != nil {
		return 0, err
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	s, err := t.fs.stat(dir, id.PID, "stat", *buffer)
	if err == nil && s.startTicks != id.StartTicks {
		err = gone(id)
	}
	if err == nil && s.hidden() {
		err = fmt.Errorf("process %d: %w", id.PID, errHidden)
	}
	return Program(s.image), err
}

// LookupProgram is [Table.Lookup] of the program that the process runs now, also if no event has reported its exec yet. program is 0 out of
// scope, and when the process has exited. execID is the kernel's number of the requested program, 0 for any. If the process has exited and
// the event of that exec was not read yet, what is known is of another program, and the error is [ErrGone].
func (t *Table) LookupProgram(id model.ProcessID, execID uint32) (p *model.Process, inScope bool, program Program, err error) {
	before := t.isBefore(id, execID)
	if _, inScope, known := t.known(id); known && !inScope && !before {
		return nil, false, 0, nil
	}
	program, err = t.ProgramOf(id)
	if err != nil && before {
		return nil, false, 0, gone(id)
	}
	if err != nil {
		p, inScope, err = t.Lookup(id)
		return p, inScope, 0, err
	}
	if p := t.running(id, program); p != nil {
		return p, true, program, nil
	}
	v, err := t.readNow(id)
	if before && v.reading == nil {
		return nil, false, 0, gone(id) // it has exited meanwhile
	}
	if v.reading == nil || !v.inScope {
		return v.process, v.inScope, 0, err
	}
	return v.process, v.inScope, Program(v.image), err
}

// running is what is known of a program in scope, or nil.
func (t *Table) running(id model.ProcessID, program Program) *model.Process {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.get(id)
	if e == nil || e.undecided || !e.inScope || e.changed(uint64(program)) {
		return nil
	}
	return e.process
}

// isBefore reports whether the events that were read belong to a program which the process ran before that of execID. If every process is in
// scope, nothing depends on that.
func (t *Table) isBefore(id model.ProcessID, execID uint32) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.find(id)
	return !t.rules.all() && e != nil && e.execID != 0 && execID != 0 && int32(execID-e.execID) > 0
}
