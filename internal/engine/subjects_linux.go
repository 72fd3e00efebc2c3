// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

const (
	// drainsAfterEnd is how many drains may still bring samples of a program that
	// has ended: those of the tables that were being written, and one to spare.
	drainsAfterEnd = 2
	// maxSubjects bounds the programs that are known at once. Beyond it they are
	// counted, and what is seen of them is lost.
	maxSubjects = 16384
)

// subjects knows the programs that processes run. An entry begins when the kernel discovers
// a program and asks, so that a process that lives for a few milliseconds is still read.
type subjects struct {
	table   *process.Table
	tracker *lifecycle.Tracker
	symbols *symbol.Symbolizer
	// unwinding is nil where no observation takes user stacks.
	unwinding *unwinding
	// kinds is read under locks of others: it is replaced, not changed, and with the lock of
	// match who do.
	kinds    atomic.Pointer[[]kindTargets]
	changing sync.Mutex
	// moving is held briefly while the scope of a known process is set.
	moving sync.Mutex
	// catchUp waits for the events of processes that are pending, see [pending.catchUp].
	catchUp func() bool
	boot    func() (time.Time, error)
	logger  *zap.Logger

	mu        sync.Mutex
	known     map[observe.SubjectKey]*subject
	byProcess map[model.ProcessID][]observe.SubjectKey
	ending    []observe.SubjectKey

	unnamed, unread, notCode, undecided, crowded atomic.Uint64
}

// kindTargets is the scope of one observation.
type kindTargets struct {
	scope lifecycle.Scope
	// stacks: it takes user stacks.
	stacks bool
	// matches narrows the engine's own scope.
	matches func(*model.Process) bool
}

func (s *subjects) addKind(kind kindTargets) {
	s.changing.Lock()
	defer s.changing.Unlock()
	kinds := append(slices.Clone(s.observations()), kind)
	s.kinds.Store(&kinds)
}

func (s *subjects) removeKind(scope lifecycle.Scope) {
	s.changing.Lock()
	defer s.changing.Unlock()
	kinds := slices.DeleteFunc(slices.Clone(s.observations()), func(k kindTargets) bool { return k.scope == scope })
	s.kinds.Store(&kinds)
}

// observations are those that run now.
func (s *subjects) observations() []kindTargets {
	if kinds := s.kinds.Load(); kinds != nil {
		return *kinds
	}
	return nil
}

// stacks are the scopes of the observations that take user stacks.
func (s *subjects) stacks() lifecycle.Scope {
	scopes := lifecycle.ScopeNone
	for _, kind := range s.observations() {
		if kind.stacks {
			scopes |= kind.scope
		}
	}
	return scopes
}

// handleAsk reads a process that the kernel has discovered, and sends the decision to the kernel.
func (s *subjects) handleAsk(key observe.SubjectKey, comm string) {
	if old := s.find(key); old != nil && s.again(key, old) {
		return
	}
	s.discover(key, comm)
}

// again answers for a program that was discovered before: by a drain that was faster
// than the question, or in the middle of its exec, when it had no mappings yet.
// It returns false where the old answer must not be used.
func (s *subjects) again(key observe.SubjectKey, old *subject) bool {
	s.mu.Lock()
	running := old.ended == 0
	s.mu.Unlock()
	if !running {
		return false
	}
	known, inScope, program, err := s.table.LookupProgram(key.ID(), key.ExecID)
	if s.left(key, old) {
		return true // the question, too, is of a program that has ended
	}
	if err != nil || !inScope || s.scopeOf(known) != old.scope.get() {
		return false
	}
	old.process.Store(known)
	if space := old.space.Load(); space != nil {
		err = space.Refresh()
	} else {
		err = s.open(old, key.ID())
	}
	if err != nil {
		return false
	}
	if s.readAs(key, old, program) {
		s.answer(key, old)
	}
	return true
}

// answer sends the kernel the decision, with the unwind tables that exist already. They
// replace those shared by a parent. The others are made in the background.
func (s *subjects) answer(key observe.SubjectKey, about *subject) {
	send := func() {
		s.mu.Lock() // as publish does, so that the last one sent is the newest
		defer s.mu.Unlock()
		s.sendDecision(key, about)
	}
	if space := about.space.Load(); s.unwinding != nil && space != nil {
		s.unwinding.want(key, about, space, send)
	} else {
		send()
	}
}

// sendDecision sends the kernel the decision, and where the unwind tables are.
func (s *subjects) sendDecision(key observe.SubjectKey, about *subject) {
	if err := s.tracker.Answer(key.PID, key.ExecID, about.scope.get(), about.handle()); err != nil {
		s.logger.Debug("Could not send the kernel whether a process is in scope", zap.Error(err))
	}
}

// publish sends the kernel new unwind tables of a program, if it still runs.
func (s *subjects) publish(key observe.SubjectKey, about *subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == about && about.ended == 0 {
		s.sendDecision(key, about)
	}
}

// refresh reads the mappings of a program again. It returns false if the process has
// executed another program since.
func (s *subjects) refresh(key observe.SubjectKey, about *subject) bool {
	space := about.space.Load()
	if space == nil || s.left(key, about) {
		return false
	}
	program, err := s.table.ProgramOf(key.ID())
	if err != nil || space.Refresh() != nil {
		return false
	}
	return s.readAs(key, about, program)
}

// seen returns the subject of a sample, or nil when the capacity is exhausted.
func (s *subjects) seen(key observe.SubjectKey, comm string) *subject {
	if known := s.find(key); known != nil && !known.undecided {
		known.call(comm)
		return known
	}
	discovered := s.discover(key, comm)
	if discovered != nil && s.isOver(discovered) && s.catchUp != nil && s.catchUp() {
		discovered = s.discover(key, comm) // the event of its exec may describe it
	}
	if discovered != nil {
		discovered.call(comm)
	}
	return discovered
}

// isOver reports whether a program that is or may be in scope was over before it could be read.
func (s *subjects) isOver(discovered *subject) bool {
	p := discovered.process.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return discovered.undecided || discovered.program == 0 && p != nil && !p.KernelThread
}

func (s *subjects) find(key observe.SubjectKey) *subject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

// discover reads a process now and remembers it. It reads without the lock, since
// the table may report changes concurrently. If two goroutines read the same process
// at once, the last result stays.
func (s *subjects) discover(key observe.SubjectKey, comm string) *subject {
	discovered := s.read(key, comm)
	if s.superseded(key) {
		discovered.close()
		discovered = s.departed(key, comm)
	}
	kept, running := s.remember(key, discovered)
	if kept != discovered {
		discovered.close()
	}
	if running {
		s.answer(key, kept)
		s.decideAgain(key, kept, ^lifecycle.ScopeNone) // an observation may have begun since it was read
	}
	return kept
}

// remember keeps a subject and returns it; an older one of the same program is
// kept instead where it knows more, and none when there are too many. It
// reports whether the program still runs.
func (s *subjects) remember(key observe.SubjectKey, discovered *subject) (kept *subject, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.supersede(key, discovered)
	old, ok := s.known[key]
	switch {
	case ok && old.knowsMore(discovered):
		return old, old.ended == 0
	case ok && !old.undecided && old.scope.get() == discovered.scope.get() && discovered.process.Load() != nil:
		// Observations hold on to the old one until they report: it is renewed.
		s.renew(key, old, discovered)
		return old, old.ended == 0
	case ok:
		old.close()
		s.ending = slices.DeleteFunc(s.ending, func(k observe.SubjectKey) bool { return k == key })
	case len(s.known) >= maxSubjects:
		s.crowded.Add(1)
		return nil, false
	default:
		s.byProcess[key.ID()] = append(s.byProcess[key.ID()], key)
	}
	s.known[key] = discovered
	if discovered.ended > 0 {
		s.ending = append(s.ending, key)
	}
	return discovered, discovered.ended == 0
}

// renew gives a subject what was read of it again. The caller holds the lock.
func (s *subjects) renew(key observe.SubjectKey, old, discovered *subject) {
	old.process.Store(discovered.process.Load())
	old.program = discovered.program
	old.lost.Store(discovered.lost.Load())
	if before := old.space.Swap(discovered.space.Swap(nil)); before != nil {
		before.Close()
	}
	s.ending = slices.DeleteFunc(s.ending, func(k observe.SubjectKey) bool { return k == key })
	if old.ended = discovered.ended; old.ended > 0 {
		s.ending = append(s.ending, key)
	}
}

// scopeOf returns the kinds of observation that a process in scope is subject to.
func (s *subjects) scopeOf(p *model.Process) lifecycle.Scope {
	scope := lifecycle.ScopeNone
	for _, kind := range s.observations() {
		if kind.matches(p) {
			scope |= kind.scope
		}
	}
	return scope
}

// changed forgets what was decided about processes whose scope or program has
// changed: the kernel asks anew at the next sample. What was sampled before is
// still attributed to the old program.
func (s *subjects) changed(changes []process.Change) {
	for _, change := range changes {
		if change.Kind == process.Described {
			s.describe(change.ID)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range changes {
		keys := s.byProcess[change.ID]
		if len(keys) == 0 || change.Kind == process.Described {
			continue
		}
		// The last thread of a process that ended may be sampled still: its
		// decision goes with the subject.
		for _, key := range keys {
			if change.Kind != process.Removed {
				s.void(key)
			}
			s.end(key)
		}
	}
}

// void makes the kernel ask anew about one program. Its question about a later program
// of the process stays, since that one is being read: a process that sleeps from now on
// would not be asked about again.
func (s *subjects) void(key observe.SubjectKey) {
	if err := s.tracker.Void(key.PID, key.ExecID); err != nil {
		s.logger.Debug("Could not remove the kernel's decision about a program", zap.Error(err))
	}
}

// forgetDecision makes the kernel ask anew.
func (s *subjects) forgetDecision(pid uint32) {
	if err := s.tracker.Forget(pid); err != nil {
		s.logger.Debug("Could not remove the kernel's decision about a process", zap.Error(err))
	}
}

func (s *subjects) end(key observe.SubjectKey) {
	if known := s.known[key]; known.ended == 0 {
		known.ended = drainsAfterEnd
		if space := known.space.Load(); space != nil {
			space.Freeze()
		}
		s.ending = append(s.ending, key)
	}
}

// drained is called when all observations have been drained once more.
func (s *subjects) drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = slices.DeleteFunc(s.ending, func(key observe.SubjectKey) bool {
		known := s.known[key]
		known.ended--
		if known.ended > 0 {
			return false
		}
		s.forget(key)
		return true
	})
}

// forget drops a subject. The caller holds the lock.
func (s *subjects) forget(key observe.SubjectKey) {
	gone := s.known[key]
	delete(s.known, key)
	if gone.undecided {
		s.undecided.Add(1) // no event of its exec has arrived since
	}
	defer gone.close() // after the kernel has the decision
	id := key.ID()
	rest := slices.DeleteFunc(s.byProcess[id], func(k observe.SubjectKey) bool { return k == key })
	if len(rest) == 0 {
		delete(s.byProcess, id)
		s.forgetDecision(id.PID)
	} else {
		s.byProcess[id] = rest
	}
}

// close forgets all processes.
func (s *subjects) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		known.close()
	}
	clear(s.known)
	clear(s.byProcess)
	s.ending = nil
}

// host is what one kind of observation requests from the engine.
type host struct {
	*subjects
	scope lifecycle.Scope
}

var _ observe.Host = host{}

// Subject implements observe.Host.
func (h host) Subject(key observe.SubjectKey, comm string) (observe.Subject, observe.Unknown) {
	known := h.seen(key, comm)
	switch {
	case known == nil:
		return nil, observe.TooMany
	case known.scope.get()&h.scope != 0:
		return known, ""
	case known.undecided:
		return nil, observe.Undecided
	}
	return nil, ""
}

// KernelFrames implements observe.Host.
func (h host) KernelFrames(dst []*model.Frame, addresses []uint64) []*model.Frame {
	return h.symbols.KernelFrames(dst, addresses)
}
