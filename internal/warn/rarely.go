// SPDX-License-Identifier: Apache-2.0

// Package warn keeps repeated warnings from filling the log. It depends on nothing but the logger.
package warn

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// pause is the least time between two warnings.
	pause = 10 * time.Second
	// maxNamed is how many errors one warning names.
	maxNamed = 5
)

// Rarely logs one kind of warning at most once in ten seconds. The next warning includes what was held back meanwhile: the first few errors
// that differ, and how many more there were. It is safe for concurrent use.
type Rarely struct {
	logger *zap.Logger
	text   string
	now    func() time.Time
	// after calls a function later; stop cancels that.
	after func(wait time.Duration, call func()) (stop func())
	// memory keeps what was logged; nil: nothing is kept.
	memory *Memory

	mu    sync.Mutex
	last  time.Time
	named []string // held back, to be logged
	held  int      // held back, only counted
	stop  func()   // nil when no call is scheduled
}

// NewRarely makes a Rarely whose warnings have the message text. now returns the time; nil: [time.Now]. Close logs what is held back at the
// end.
func NewRarely(logger *zap.Logger, text string, now func() time.Time) *Rarely {
	if now == nil {
		now = time.Now
	}
	after := func(wait time.Duration, call func()) func() {
		timer := time.AfterFunc(wait, call)
		return func() { timer.Stop() }
	}
	return &Rarely{logger: logger, text: text, now: now, after: after}
}

// Remember suppresses errors that memory has from previous components, and records what is logged. It must be called before the first
// warning.
func (r *Rarely) Remember(memory *Memory) *Rarely {
	r.memory = memory
	return r
}

// Warn logs an error, at once or together with others within ten seconds, or only counts it: then it returns false.
func (r *Rarely) Warn(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := err.Error()
	wait := pause - r.now().Sub(r.last)
	switch {
	case r.memory.knows(r.text + text):
		r.held++
		return true
	case len(r.named) > 0 && slices.Contains(r.named, text):
		r.held++
		return true
	case len(r.named) == maxNamed:
		r.held++
		return false
	}
	r.named = append(r.named, text)
	switch {
	case r.last.IsZero() || wait <= 0:
		r.flush()
	case r.stop == nil:
		r.stop = r.after(wait, r.due)
	}
	return true
}

// Close logs what is held back. Later warnings are logged as usual.
func (r *Rarely) Close() { r.due() }

func (r *Rarely) due() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.named) > 0 {
		r.flush()
	}
}

// flush logs what is held back. The caller holds the lock.
func (r *Rarely) flush() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
	fields := []zap.Field{zap.String("error", r.named[0])}
	if len(r.named) > 1 {
		fields = append(fields, zap.Strings("further_errors", r.named[1:]))
	}
	for _, text := range r.named {
		r.memory.note(r.text + text)
	}
	r.logger.Warn(r.text, append(fields, zap.Int("similar_warnings_held_back", r.held))...)
	r.last, r.named, r.held = r.now(), nil, 0
}
