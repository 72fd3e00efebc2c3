// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// evaluateTries is how often a process is read again because it ran another program meanwhile.
const evaluateTries = 3

// verdict is the result of reading a process.
type verdict struct {
	*reading
	network listening
	process *model.Process
	inScope bool
	include int
}

// evaluate reads a process, decides about it and keeps the result. The caller calls notify.
func (t *Table) evaluate(id model.ProcessID) (verdict, error) {
	for try := 1; ; try++ {
		t.mu.RLock()
		e := t.byPID[id.PID]
		var execs uint32
		var program *execution
		decided := false
		created := t.creation(id.StartTicks)
		if e != nil && e.id == id {
			execs, created, program, decided = e.execs, e.created, e.execution, e.decided()
		}
		t.mu.RUnlock()
		t.reads.Add(1)
		r, err := t.fs.read(id.PID, t.ports.used())
		if err == nil && r.startTicks != id.StartTicks {
			err = gone(id)
		}
		if err != nil {
			t.unreadable(id, err)
			return verdict{}, err
		}
		program.complete(r)
		if !decided && t.endedUnknown(id, created, r) {
			return verdict{}, gone(id)
		}
		v := t.judge(&entry{id: id, created: created}, r)
		if t.keep(id, &v, execs, try == evaluateTries) {
			return v, nil
		}
	}
}

// endedUnknown reports whether a process has exited, but was not reaped, so that neither /proc nor an event has what selectors compare. Its
// exit event removes it.
func (t *Table) endedUnknown(id model.ProcessID, created time.Time, r *reading) bool {
	if !r.hidden || r.kernel || r.executable != "" || t.rules.all() {
		return false
	}
	p, service := t.build(&entry{id: id, created: created}, r)
	_, _, known := t.rules.decideWithout(&candidate{process: p, service: service}, fieldExe|fieldCmdline|fieldService|fieldPort)
	return !known
}

// unreadable removes a process that turned out to have exited.
func (t *Table) unreadable(id model.ProcessID, err error) {
	if !errors.Is(err, ErrGone) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.get(id); e != nil {
		t.remove(e)
	}
}

// judge applies the selectors without any lock, since patterns may take a while.
func (t *Table) judge(e *entry, r *reading) verdict {
	v := verdict{reading: r}
	if t.ports.used() && !r.kernel {
		v.network = t.ports.of(t.fs.holding(&r.denied), e.id.PID, r.networkNamespace, listening{})
	}
	var service string
	v.process, service = t.build(e, r)
	s := &candidate{process: v.process, service: service, ports: v.network.ports}
	v.inScope, v.include = t.rules.decide(s)
	t.warnDenied(&v, s)
	if !v.inScope {
		v.process = nil
		return v
	}
	t.identify(v.process)
	return v
}

// keep puts a verdict into the table, unless an exec came in between or is in progress. The last try counts nevertheless, and the process
// stays undecided until the next scan; its former description stays if there was nothing to read yet.
func (t *Table) keep(id model.ProcessID, v *verdict, execs uint32, last bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(id)
	if e == nil {
		if t.recent.has(id) {
			return true // it exited while it was read
		}
		if e = t.insert(id); e == nil {
			return true // the table is full: a result, but not kept
		}
		execs = 0
	}
	overtaken := e.execs != execs
	if (overtaken || v.executing) && !last {
		return false
	}
	if v.executing {
		if !e.seen { // what the caller gets is void when the exec is done
			e.image, e.seen = 0, true
		}
		t.await(e)
		return true
	}
	if v.hidden && e.decided() {
		e.describe(cmp.Or(e.process, v.process))
		v.process, v.inScope, v.include = e.process, e.inScope, e.include
		return true
	}
	news := e.news(v)
	e.comm, e.image, e.seen, e.kernel, e.network = v.comm, v.image, true, v.kernel, v.network
	e.describe(v.process)
	if v.inScope && v.environmentUnknown {
		t.missEnvironment(e)
	}
	e.base, e.executed, e.execution = nil, false, e.execution.read()
	e.inScope, e.include, e.undecided = v.inScope, v.include, overtaken
	t.changes.decided(e, news)
	return true
}

// await defers the decision about a process that is in the middle of an exec.
func (t *Table) await(e *entry) {
	if t.rules.all() {
		e.inScope = e.id.PID != t.cfg.SelfPID
		t.changes.decided(e, unchanged)
	}
	e.undecided = false // it may have been in the queue before
	t.postpone(e)
}

// decided reports whether the decision about a process holds as long as its stat does not change.
func (e *entry) decided() bool { return e.seen && !e.undecided }

// changed reports whether a process runs another program than when it was last read.
func (e *entry) changed(image uint64) bool { return e.seen && e.image != image }

// news returns the change that a verdict contains apart from the scope.
func (e *entry) news(v *verdict) ChangeKind {
	before := e.described()
	switch {
	case e.changed(v.image):
		return Executed
	case before == nil || v.process == nil: // the former description was never used, or there is no new one
	case before.Comm != v.process.Comm, !slices.Equal(before.Arguments, v.process.Arguments), !slices.Equal(e.network.ports, v.network.ports):
		return Described
	}
	return unchanged
}

// described is what was last read of the program that the process runs, or nil.
func (e *entry) described() *model.Process {
	if e.process == nil && e.base != nil && e.base.ID == e.id && !e.executed {
		return e.base
	}
	return e.process
}
