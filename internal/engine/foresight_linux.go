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
// millisecond, and of short-lived ones most are never sampled.
const foreseePerSecond, foreseeBurst = 10, 20

// foresight reads programs when they are exec'ed, so that their first sample
// finds unwind tables. Programs that it has no time for are read when they are
// sampled, as without it.
type foresight struct {
	flush  func() error // makes the events of processes be read
	logger *zap.Logger

	mu     sync.Mutex
	budget budget
}

// look has the events of processes read at once: one that nobody follows has
// mapped code, as it does in an exec.
func (f *foresight) look() {
	f.mu.Lock()
	able := f.budget.has(time.Now())
	f.mu.Unlock()
	if !able {
		return
	}
	if err := f.flush(); err != nil {
		f.logger.Debug("Flushing process events", zap.Error(err))
	}
}

// execed is told of an exec and reads the program, within the budget.
func (f *foresight) execed(s *subjects, key observe.SubjectKey, comm string) {
	if s.find(key) != nil {
		return // it was sampled already
	}
	f.mu.Lock()
	able := f.budget.take(time.Now())
	f.mu.Unlock()
	if able {
		s.foresee(key, comm)
	}
}

// foresee is asked for a program that the kernel has not met yet.
func (s *subjects) foresee(key observe.SubjectKey, comm string) {
	asked, err := s.tracker.Ask(key.PID)
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

// budget is a bucket of tokens.
type budget struct {
	tokens float64
	at     time.Time // when tokens was true; zero at the begin, when it is full
}

func (b *budget) fill(now time.Time) {
	if b.at.IsZero() {
		b.tokens = foreseeBurst
	} else {
		b.tokens = min(foreseeBurst, b.tokens+now.Sub(b.at).Seconds()*foreseePerSecond)
	}
	b.at = now
}

func (b *budget) has(now time.Time) bool {
	b.fill(now)
	return b.tokens >= 1
}

func (b *budget) take(now time.Time) bool {
	if !b.has(now) {
		return false
	}
	b.tokens--
	return true
}
