// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// prefetchPerSecond is how many programs are read each second before they are
// sampled, and prefetchBurst how many at once: reading one costs half a
// millisecond. prefetchAfter is how long they must have lived for it: most that are
// over by then are never sampled.
const (
	prefetchPerSecond, prefetchBurst = 10, 20
	prefetchAfter                    = 3 * time.Millisecond
)

// prefetcher reads programs when they are exec'ed, so that their first sample
// finds unwind tables. Programs that it has no time for are read when they are
// sampled, as without it.
type prefetcher struct {
	flush  func() error // makes the events of processes be read
	logger *zap.Logger

	mu      sync.Mutex
	reads   budget
	flushes budget
	waiting bool // until it is time to flush
}

// flushSoon has the events of processes read soon. It is called when a process that is not followed has
// mapped code, as it does in an exec.
func (f *prefetcher) flushSoon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.waiting && f.flushes.take(time.Now()) {
		f.waiting = true
		time.AfterFunc(prefetchAfter, f.flushNow)
	}
}

func (f *prefetcher) flushNow() {
	f.mu.Lock()
	f.waiting = false
	f.mu.Unlock()
	if err := f.flush(); err != nil {
		f.logger.Debug("Flushing process events", zap.Error(err))
	}
}

// onExec handles an exec: it reads the program, within the budget.
func (f *prefetcher) onExec(s *subjects, key observe.SubjectKey, comm string) {
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
		s.prefetch(key, comm)
	}
}

// prefetch reads a program that the kernel has not discovered yet.
func (s *subjects) prefetch(key observe.SubjectKey, comm string) {
	asked, err := s.tracker.Ask(key.PID, key.ExecID)
	if err != nil {
		s.logger.Debug("Could not send the kernel whether a process is in scope", zap.Error(err))
	}
	if err != nil || !asked {
		return // the kernel asks itself
	}
	if _, err := s.table.ProgramOf(key.ID()); err != nil {
		s.forgetDecision(key.PID) // it has ended
		return
	}
	s.handleAsk(key, comm)
}

// budget is a bucket of prefetchBurst tokens, full at the begin, that
// prefetchPerSecond come to.
type budget struct {
	spent float64   // tokens
	at    time.Time // when that was true
}

func (b *budget) take(now time.Time) bool {
	b.spent = max(0, b.spent-now.Sub(b.at).Seconds()*prefetchPerSecond)
	b.at = now
	if b.spent > prefetchBurst-1 {
		return false
	}
	b.spent++
	return true
}
