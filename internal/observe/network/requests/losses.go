// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// LossReason is why requests are incomplete or lost; it is the reason of the loss counters.
type LossReason string

// Losses counts losses of processes in scope by reason. Connections of other processes are captured, too, until it is decided whether the
// process is in scope: their losses wait for that decision and never count. Its methods may be called from any goroutine.
type Losses struct {
	mu        sync.Mutex
	counted   map[LossReason]uint64
	undecided map[observe.SubjectKey]map[LossReason]uint64
}

// NewLosses returns an empty Losses.
func NewLosses() *Losses {
	return &Losses{counted: map[LossReason]uint64{}, undecided: map[observe.SubjectKey]map[LossReason]uint64{}}
}

// Add counts n losses of a process. Losses without a process belong to one that is no longer observed: they are not counted.
func (l *Losses) Add(of observe.SubjectKey, reason LossReason, n uint64) {
	if n == 0 || of == (observe.SubjectKey{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	its := l.undecided[of]
	if its == nil {
		its = map[LossReason]uint64{}
		l.undecided[of] = its
	}
	its[reason] += n
}

// Decide counts the waiting losses of processes that are in scope, and drops the others.
func (l *Losses) Decide(inScope func(observe.SubjectKey) bool) {
	l.mu.Lock()
	undecided := l.undecided
	l.undecided = map[observe.SubjectKey]map[LossReason]uint64{}
	l.mu.Unlock()
	for of := range undecided {
		if !inScope(of) {
			delete(undecided, of)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, its := range undecided {
		for reason, n := range its {
			l.counted[reason] += n
		}
	}
}

// Of returns the number of losses counted for a reason.
func (l *Losses) Of(reason LossReason) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counted[reason]
}
