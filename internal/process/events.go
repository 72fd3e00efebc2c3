// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Fork records a new process. It inherits the decision about its parent unless a selector compares pids, and is read on demand. The parent
// may be unknown. execID is that of [Execution], 0 if it is not known.
func (t *Table) Fork(parentPID uint32, child model.ProcessID, execID uint32) {
	t.mu.Lock()
	t.fork(t.byPID[parentPID], child, execID)
	t.mu.Unlock()
	t.notify()
}

func (t *Table) fork(parent *entry, child model.ProcessID, execID uint32) {
	if t.get(child) != nil {
		return
	}
	e := t.insert(child)
	if e == nil {
		return
	}
	e.execID = execID
	if parent != nil {
		e.inherit(parent)
	}
	switch {
	case t.rules.all():
		e.inScope = child.PID != t.cfg.SelfPID
	case parent != nil && !parent.undecided && t.rules.uses&fieldPID == 0:
		e.inScope, e.include = parent.inScope, parent.include
	default:
		// Until the process is read, the parent's decision is the best guess.
		e.inScope = parent != nil && parent.inScope && t.rules.uses&fieldPID == 0
		t.postpone(e)
	}
	t.changes.decided(e, unchanged)
}

// inherit copies what a child shares with its parent.
func (e *entry) inherit(parent *entry) {
	e.parent = parent.id
	e.comm, e.kernel, e.image, e.seen = parent.comm, parent.kernel, parent.image, parent.seen
	e.base, e.executed = parent.process, false
	if e.base == nil {
		e.base, e.executed = parent.base, parent.executed
	}
	e.network, e.execution = parent.network, parent.execution
}

// ForkedFrom returns the process that another was forked from, if a fork event reported it.
func (t *Table) ForkedFrom(id model.ProcessID) (parent model.ProcessID, known bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.find(id)
	if e == nil {
		return parent, false
	}
	return e.parent, e.parent != model.ProcessID{}
}

// Execution is what an exec event contains about the new program. It is used only if the process exits before it is read.
type Execution struct {
	// Comm is its name, empty where the event has none.
	Comm string
	// ExecID distinguishes the programs that a process runs one after the other.
	ExecID uint32
	// Executable is its path, as /proc/PID/exe shows it; empty where it is not known.
	Executable string
	// Arguments are as /proc/PID/cmdline shows them; ArgumentsCut: there may be more.
	Arguments    []byte
	ArgumentsCut bool
	// Environment has the variables of OpenTelemetry's SDKs, as /proc/PID/environ shows them; EnvironmentWhole: there are no others.
	Environment      []byte
	EnvironmentWhole bool
}

// execution is what is kept of an Execution. It is immutable: forks share it.
type execution struct {
	id          uint32
	environment environment
	whole       bool
	// executable and arguments are kept until the process is read.
	executable string
	arguments  []string
	cut        bool
}

func newExecution(program *Execution) *execution {
	return &execution{
		id: program.ExecID, environment: parseEnvironment(program.Environment), whole: program.EnvironmentWhole,
		executable: bound(cleanText(program.Executable), maxPath), arguments: parseArguments(program.Arguments), cut: program.ArgumentsCut,
	}
}

// read returns what is kept of an execution whose process was read.
func (e *execution) read() *execution {
	if e == nil || e.executable == "" && e.arguments == nil {
		return e
	}
	kept := *e
	kept.executable, kept.arguments = "", nil
	return &kept
}

// lacksEnvironment reports whether a program may name its service in a part of its environment that is not known.
func (e *execution) lacksEnvironment() bool {
	return e == nil || !e.whole && e.environment.serviceName == ""
}

// complete adds to a reading what a process that exits does not show any more.
func (e *execution) complete(r *reading) {
	if e == nil || r.executable != "" || r.kernel {
		return
	}
	r.executable = e.executable
	if len(r.arguments) == 0 {
		r.arguments = e.arguments
	}
	if r.environment == (environment{}) {
		r.environment = e.environment
		r.environmentUnknown = e.lacksEnvironment()
	}
}

// Exec records that a process runs another program.
func (t *Table) Exec(id model.ProcessID, program Execution) {
	t.mu.Lock()
	t.exec(id, program)
	t.mu.Unlock()
	t.notify()
}

func (t *Table) exec(id model.ProcessID, program Execution) {
	e := t.get(id)
	if e == nil {
		if e = t.insert(id); e == nil {
			return
		}
		e.inScope = t.rules.all() && id.PID != t.cfg.SelfPID
		if before := t.lingering[id]; before != nil { // its exit was found before the event was read
			parent := before.parent
			e.inherit(before)
			e.parent = parent
		}
	}
	e.replaced(program.Comm)
	e.execution, e.execID = newExecution(&program), program.ExecID
	if !t.rules.all() {
		t.postpone(e)
	}
	t.changes.decided(e, Executed)
}

// replaced clears what an exec made void.
func (e *entry) replaced(comm string) {
	if e.process != nil {
		e.base, e.process = e.process, nil
	}
	e.execs++
	e.environmentMissed = false
	e.executed, e.comm, e.image, e.seen, e.kernel = true, cleanText(comm), 0, false, false
	e.network, e.since, e.confirmed, e.execution = listening{}, e.scan, false, nil
}

// Describe adds to p what is known of a program that has ended: what was read of it. For a process that was forked and runs the program of
// its parent, it adds all that both have in common. Otherwise it adds how the program was started: its executable, and its service.name and
// service.instance.id, which follow from the executable if the environment has none.
func (t *Table) Describe(p *model.Process, execID uint32) {
	t.mu.RLock()
	var started execution
	e := t.find(p.ID)
	if e != nil && e.execID == execID {
		known := e.process
		if known == nil && !e.ranAnother() {
			known = t.infer(e)
		}
		if known != nil {
			id, comm, created := p.ID, cmp.Or(p.Comm, known.Comm), p.CreationTime
			*p = *known
			p.ID, p.Comm, p.CreationTime = id, comm, created
			t.mu.RUnlock()
			return
		}
	}
	if e != nil && e.execution != nil && e.execution.id == execID {
		started = *e.execution
	}
	t.mu.RUnlock()
	p.Executable = started.executable
	p.ServiceName, p.ServiceInstanceID = serviceOf(started.environment, p), started.environment.serviceInstance
	t.identify(p)
}

// Exit records that the last thread of a process exited.
func (t *Table) Exit(id model.ProcessID) {
	t.mu.Lock()
	if e := t.get(id); e != nil {
		t.remove(e)
	} else {
		t.recent.add(id)
	}
	t.mu.Unlock()
	t.notify()
}
