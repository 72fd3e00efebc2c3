// SPDX-License-Identifier: Apache-2.0

// Package warn keeps warnings that repeat from filling the log. It depends on nothing but the logger.
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
	// maxNamed is how many errors one warning tells.
	maxNamed = 5
)

// Rarely logs one kind of warning at most once in ten seconds. What it held back meanwhile is told together then: the first few
// errors that differ, and how many more there were. It is safe for concurrent use.
type Rarely struct {
	logger *zap.Logger
	text   string
	now    func() time.Time
	// after calls a function later; stop gives that up.
	after func(wait time.Duration, call func()) (stop func())

	mu    sync.Mutex
	last  time.Time
	named []string // held back, to be told
	held  int      // held back, only counted
	stop  func()   // nil when nothing waits
}

// NewRarely makes one whose warnings say text. Now tells the time, [time.Now] when nil. Close tells what is held back at the end.
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

// Warn tells of an error, at once or together with others within ten seconds, or only counts it: then it returns false.
func (r *Rarely) Warn(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := err.Error()
	wait := pause - r.now().Sub(r.last)
	switch {
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
		r.tell()
	case r.stop == nil:
		r.stop = r.after(wait, r.due)
	}
	return true
}

// Close tells what is held back. What is warned of after that is told as before.
func (r *Rarely) Close() { r.due() }

func (r *Rarely) due() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.named) > 0 {
		r.tell()
	}
}

// tell logs what is held back. The caller holds the lock.
func (r *Rarely) tell() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
	fields := []zap.Field{zap.String("error", r.named[0])}
	if len(r.named) > 1 {
		fields = append(fields, zap.Strings("further_errors", r.named[1:]))
	}
	r.logger.Warn(r.text, append(fields, zap.Int("similar_warnings_held_back", r.held))...)
	r.last, r.named, r.held = r.now(), nil, 0
}
