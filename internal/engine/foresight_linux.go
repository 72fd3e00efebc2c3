// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// foreseePerSecond is how many programs are read each second before they are
// sampled, and foreseeBurst how many at once: reading one costs half a
// millisecond. foreseeAfter is how long they must have lived for it: most that are
// over by then are never sampled.
const (
	foreseePerSecond, foreseeBurst = 10, 20
	foreseeAfter                   = 3 * time.Millisecond
)

// foresight reads programs when they are exec'ed, so that their first sample
// finds unwind tables. Programs that it has no time for are read when they are
// sampled, as without it.
type foresight struct {
	flush  func() error // makes the events of processes be read
	logger *zap.Logger

	mu      sync.Mutex
	reads   budget
	flushes budget
	waiting bool // until it is time to flush
}

// look has the events of processes read soon: one that nobody follows has mapped
// code, as it does in an exec.
func (f *foresight) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.waiting && f.flushes.take(time.Now()) {
		f.waiting = true
		time.AfterFunc(foreseeAfter, f.flushNow)
	}
}

func (f *foresight) flushNow() {
	f.mu.Lock()
	f.waiting = false
	f.mu.Unlock()
	if err := f.flush(); err != nil {
		f.logger.Debug("Flushing process events", zap.Error(err))
	}
}

// execed is told of an exec and reads the program, within the budget.
func (f *foresight) execed(s *subjects, key observe.SubjectKey, comm string) {
	if s.find(key) != nil && s.tracker.Knows(key.PID) {
		return // it was sampled already, and not in the middle of its exec, which takes the answer away
	}
	if _, err := s.table.ProgramOf(key.ID()); err != nil {
		return // it has ended
	}
	f.mu.Lock()
	able := f.reads.take(time.Now())
	f.mu.Unlock()
	if able {
		s.foresee(key, comm)
	}
}

// foresee is asked for a program that the kernel has not met yet.
func (s *subjects) foresee(key observe.SubjectKey, comm string) {
	asked, err := s.tracker.Ask(key.PID, key.ExecID)
	if err != nil {
		s.logger.Debug("Telling the kernel who is in scope", zap.Error(err))
	}
	if err != nil || !asked {
		return // the kernel asks itself
	}
	if _, err := s.table.ProgramOf(key.ID()); err != nil {
		s.unanswer(key.PID) // it has ended
		return
	}
	s.asked(key, comm)
}

// budget is a bucket of foreseeBurst tokens, full at the begin, that
// foreseePerSecond come to.
type budget struct {
	spent float64   // tokens
	at    time.Time // when that was true
}

func (b *budget) take(now time.Time) bool {
	b.spent = max(0, b.spent-now.Sub(b.at).Seconds()*foreseePerSecond)
	b.at = now
	if b.spent > foreseeBurst-1 {
		return false
	}
	b.spent++
	return true
}
