// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// handOverWithin is how long profiles wait for the names of what was drained last. Nothing else waits with them.
const handOverWithin = 200 * time.Millisecond

// waitingProfiles are profiles of intervals that have ended.
type waitingProfiles struct {
	batches []profileBatch  // by deadline
	timer   *time.Timer     // of the first one; nil while there are none
	settled <-chan struct{} // closed when the names of all batches are known
}

// profileBatch is what was reported at once.
type profileBatch struct {
	profiles []*model.Profile
	deadline time.Time
}

// due is when to hand over the first batch at the latest; nil while there are none.
func (w *waitingProfiles) due() <-chan time.Time {
	if w.timer == nil {
		return nil
	}
	return w.timer.C
}

// add has profiles wait for their names.
func (w *waitingProfiles) add(profiles []*model.Profile, now time.Time) {
	w.batches = append(w.batches, profileBatch{profiles, now.Add(handOverWithin)})
	if w.timer == nil {
		w.timer = time.NewTimer(handOverWithin)
	}
}

// take removes the batches whose deadline is not after a time, and returns their profiles.
func (w *waitingProfiles) take(now time.Time) (profiles []*model.Profile) {
	for len(w.batches) > 0 && !w.batches[0].deadline.After(now) {
		profiles = append(profiles, w.batches[0].profiles...)
		w.batches = w.batches[1:]
	}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if len(w.batches) == 0 {
		w.batches, w.settled = nil, nil
		return profiles
	}
	w.timer = time.NewTimer(w.batches[0].deadline.Sub(now))
	return profiles
}

// handOverSoon hands over profiles when their names are there, or soon.
func (e *Engine) handOverSoon(profiles []*model.Profile) {
	if len(profiles) == 0 {
		return
	}
	e.waiting.add(profiles, time.Now())
	// The channel of the batches before may be closed: the new profiles have frames of their own.
	e.waiting.settled = e.symbols.Settled()
}

// handOver hands over all profiles that wait.
func (e *Engine) handOver() { e.handOverDue(time.Now().Add(handOverWithin)) }

// handOverDue hands over the profiles whose deadline is not after a time.
func (e *Engine) handOverDue(now time.Time) {
	profiles := e.waiting.take(now)
	if len(profiles) == 0 {
		return
	}
	if e.hooks.Profiles != nil {
		e.hooks.Profiles(profiles)
	}
	if e.symbols != nil {
		e.symbols.Exported()
	}
}
