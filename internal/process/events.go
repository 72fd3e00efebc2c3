// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// Fork tells of a new process. It takes over the decision about its parent,
// where a selector does not go by the pid, and is read when somebody asks for
// it. The parent may be unknown.
func (t *Table) Fork(parentPID uint32, child model.ProcessID) {
	t.mu.Lock()
	t.fork(t.byPID[parentPID], child)
	t.mu.Unlock()
	t.tell()
}

func (t *Table) fork(parent *entry, child model.ProcessID) {
	if t.get(child) != nil {
		return
	}
	e := t.insert(child)
	if e == nil {
		return
	}
	if parent != nil {
		e.inherit(parent)
	}
	switch {
	case t.rules.all():
		e.inScope = child.PID != t.cfg.SelfPID
	case parent != nil && !parent.undecided && t.rules.uses&fieldPID == 0:
		e.inScope, e.include = parent.inScope, parent.include
	default:
		// Until it is read, the parent's decision is the best guess.
		e.inScope = parent != nil && parent.inScope && t.rules.uses&fieldPID == 0
		t.postpone(e)
	}
	t.changes.decided(e, unchanged)
}

// inherit takes over what a child shares with its parent.
func (e *entry) inherit(parent *entry) {
	e.parent = parent.id
	e.comm, e.kernel, e.image, e.seen = parent.comm, parent.kernel, parent.image, parent.seen
	e.base, e.executed = parent.process, false
	if e.base == nil {
		e.base, e.executed = parent.base, parent.executed
	}
	e.network = parent.network
}

// ForkedFrom returns the process that one was forked from, if a fork told of it.
func (t *Table) ForkedFrom(id model.ProcessID) (parent model.ProcessID, known bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.find(id)
	if e == nil {
		return parent, false
	}
	return e.parent, e.parent != model.ProcessID{}
}

// Exec tells that a process runs another program. comm is its new name, or
// empty where the event does not say; it is used only when the process ends
// before it was read.
func (t *Table) Exec(id model.ProcessID, comm string) {
	t.mu.Lock()
	t.exec(id, comm)
	t.mu.Unlock()
	t.tell()
}

func (t *Table) exec(id model.ProcessID, comm string) {
	e := t.get(id)
	if e == nil {
		if e = t.insert(id); e == nil {
			return
		}
		e.inScope = t.rules.all() && id.PID != t.cfg.SelfPID
	}
	e.replaced(comm)
	if !t.rules.all() {
		t.postpone(e)
	}
	t.changes.decided(e, Executed)
}

// replaced forgets what an exec made void.
func (e *entry) replaced(comm string) {
	if e.process != nil {
		e.base, e.process = e.process, nil
	}
	e.execs++
	e.executed, e.comm, e.image, e.seen, e.kernel = true, cleanText(comm), 0, false, false
	e.network, e.since, e.confirmed = listening{}, e.scan, false
}

// Exit tells that the last thread of a process ended.
func (t *Table) Exit(id model.ProcessID) {
	t.mu.Lock()
	if e := t.get(id); e != nil {
		t.remove(e)
	} else {
		t.recent.add(id)
	}
	t.mu.Unlock()
	t.tell()
}
