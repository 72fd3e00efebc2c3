// SPDX-License-Identifier: Apache-2.0

// Package warn keeps warnings that repeat from filling the log. It depends on nothing but the logger.
package warn

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// pause is the least time between two warnings.
const pause = 10 * time.Second

// Rarely logs one kind of warning at most once in ten seconds, and how many it held back since. It is safe for concurrent use.
type Rarely struct {
	logger *zap.Logger
	text   string
	now    func() time.Time

	mu   sync.Mutex
	last time.Time
	held int
}

// NewRarely makes one whose warnings say text. Now tells the time, [time.Now] when nil.
func NewRarely(logger *zap.Logger, text string, now func() time.Time) *Rarely {
	if now == nil {
		now = time.Now
	}
	return &Rarely{logger: logger, text: text, now: now}
}

// Warn tells of an error, or counts it: then it returns false.
func (r *Rarely) Warn(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if !r.last.IsZero() && now.Sub(r.last) < pause {
		r.held++
		return false
	}
	r.logger.Warn(r.text, zap.Error(err), zap.Int("similar_warnings_held_back", r.held))
	r.last, r.held = now, 0
	return true
}
