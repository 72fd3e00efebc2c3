// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Program tells the programs apart that a process runs one after the other. It
// is made of where code and stack lie (fields 26 to 28 of proc_pid_stat(5)),
// which the kernel draws anew at each exec; where it does not, or may not be
// asked (CAP_SYS_PTRACE), programs can look the same. 0 stands for none: a
// kernel thread, or a process in the middle of an exec.
type Program uint64

// errHidden says that no thread of a process shows which program it runs: it ends, for
// the most part.
var errHidden = errors.New("its main thread has ended, and no other one shows its program")

// ProgramOf reads which program a process runs now. The error is [ErrGone] also
// when the process was told to have ended.
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

// LookupProgram is [Table.Lookup], but of the program that the process runs
// now, also where no event has told of its exec yet. program is 0 out of scope,
// and when the process has ended.
func (t *Table) LookupProgram(id model.ProcessID) (p *model.Process, inScope bool, program Program, err error) {
	if _, inScope, known := t.known(id); known && !inScope {
		return nil, false, 0, nil
	}
	program, err = t.ProgramOf(id)
	if err != nil {
		p, inScope, err = t.Lookup(id)
		return p, inScope, 0, err
	}
	if p := t.running(id, program); p != nil {
		return p, true, program, nil
	}
	v, err := t.look(id)
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
