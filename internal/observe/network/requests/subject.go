// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// idleReports is the number of reports that include a process, and each of its series, after its last request; idleAfterEnd is that
	// number for a process that may have exited.
	idleReports  = 150
	idleAfterEnd = 2
)

// subject is one program that a process executes, or has executed.
type subject struct {
	*process // nil if out of scope
	// known is the process itself, where the embedded process is its service instance.
	known *model.Process
	idle  int       // reports since its last request
	asked bool      // whether Name has found out which process it is
	waits time.Time // since when the decision about it is pending; zero: it is not
}

// process returns the process that a subject counts for, nil if it is out of scope. It marks the subject as used. The caller holds the lock.
func (t *Totals) process(of observe.SubjectKey) *process {
	s := t.subjects[of]
	if s == nil {
		s = &subject{process: newProcess()}
		t.subjects[of] = s
	}
	s.idle = 0
	return s.process
}

// undecidedFor is how long requests wait for the decision whether their process is in scope: what the kernel reports of a process that has
// exited comes with the next drain.
const undecidedFor = 2 * time.Second

// Name finds out the processes of the requests that were added since the last call. who returns nil for a process that is out of scope; what
// such a process did is dropped. Requests of an undecided process wait, and count as lost after undecidedFor.
func (t *Totals) Name(who func(observe.SubjectKey) (known *model.Process, decided bool)) {
	t.mu.Lock()
	var unknown []observe.SubjectKey
	for key, s := range t.subjects {
		if !s.asked {
			unknown = append(unknown, key)
		}
	}
	t.mu.Unlock()
	for _, key := range unknown {
		known, decided := who(key)
		t.mu.Lock()
		s := t.subjects[key]
		if decided || t.waited(s) {
			t.name(s, known)
		}
		t.mu.Unlock()
	}
}

// waited reports whether the requests of a subject have waited for undecidedFor, and counts them as lost then. The caller holds the lock.
func (t *Totals) waited(s *subject) bool {
	now := t.now()
	if s.waits.IsZero() {
		s.waits = now
	}
	if now.Sub(s.waits) < undecidedFor {
		return false
	}
	for _, series := range s.series {
		t.undecided += series.requests()
	}
	for _, series := range s.pending {
		t.undecided += series.requests()
	}
	return true
}

// Undecided returns the number of requests that were lost because it was not decided whether their process is in scope.
func (t *Totals) Undecided() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.undecided
}

// Waits reports whether requests of a process wait for the decision about it.
func (t *Totals) Waits(of observe.SubjectKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjects[of]
	return s != nil && !s.asked
}

// name sets the process of a subject. Subjects with the same resource share their series. The caller holds the lock.
func (t *Totals) name(s *subject, known *model.Process) {
	s.asked = true
	if known == nil {
		t.leave(s, false)
		return
	}
	t.unnamed.Add(&s.unnamed)
	s.known = known
	if t.byInstance {
		known = known.Instance()
	}
	resource := model.ResourceOf(known)
	shared := t.byResource[resource]
	if shared == nil {
		s.process.known = known
		t.byResource[resource] = s.process
		return
	}
	t.join(shared, s.process)
	shared.subjects++
	s.process = shared
}

// Process returns the process of a subject, nil if it is out of scope or not known yet.
func (t *Totals) Process(of observe.SubjectKey) *model.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[of]; s != nil && s.process != nil {
		return s.known
	}
	return nil
}

// leave detaches a subject from its process. The last subject drops the process with its series, unless keep is set: for a service instance
// whose process has exited. The caller holds the lock.
func (t *Totals) leave(s *subject, keep bool) {
	p := s.process
	s.process, s.known = nil, nil
	if p == nil {
		return
	}
	if p.subjects--; p.subjects > 0 || keep {
		return
	}
	t.series -= p.held()
	t.ending -= p.ending
	t.pending -= len(p.pending)
	if p.known != nil {
		delete(t.byResource, model.ResourceOf(p.known))
	}
}

// LeaveOut drops processes that have left the scope, and processes and series that have been idle for long. It is called for each report.
// stays reports whether a process is still in scope, and whether that is known: otherwise the process may have exited.
func (t *Totals) LeaveOut(stays func(observe.SubjectKey) (stays, known bool, err error)) error {
	t.mu.Lock()
	subjects := make([]observe.SubjectKey, 0, len(t.subjects))
	for key, s := range t.subjects {
		if s.asked {
			subjects = append(subjects, key)
		}
	}
	t.mu.Unlock()
	for _, key := range subjects {
		stays, known, err := stays(key)
		if err != nil {
			return err
		}
		patience := idleReports
		if !known {
			patience = idleAfterEnd
		}
		t.mu.Lock()
		s := t.subjects[key]
		if s.idle++; !stays || s.process == nil || s.idle > patience {
			t.leave(s, stays && t.byInstance)
			delete(t.subjects, key)
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for resource, p := range t.byResource {
		dropped := p.age()
		t.series -= dropped
		t.retired += uint64(dropped)
		if p.subjects == 0 && len(p.series) == 0 && len(p.pending) == 0 {
			delete(t.byResource, resource)
		}
	}
	return nil
}
