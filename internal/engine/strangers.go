// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"time"
)

const (
	// strangersMost bounds the processes that are remembered, strangersKept is for
	// how long they are where there are more: reading a process takes less.
	strangersMost = 4096
	strangersKept = 5 * time.Second
)

// strangers remembers when processes last changed something that nobody looked for.
type strangers struct {
	at        map[uint32]time.Time // by pid
	forgotten time.Time            // the last of those who are no longer remembered
}

// note is told that a process has changed something.
func (s *strangers) note(pid uint32, now time.Time) {
	if s.at == nil {
		s.at = map[uint32]time.Time{}
	}
	if len(s.at) >= strangersMost {
		s.forget(now.Add(-strangersKept))
	}
	if len(s.at) >= strangersMost {
		s.forget(now)
	}
	s.at[pid] = now
}

// forget drops those who were noted by a time.
func (s *strangers) forget(by time.Time) {
	maps.DeleteFunc(s.at, func(_ uint32, at time.Time) bool {
		gone := !at.After(by)
		if gone && at.After(s.forgotten) {
			s.forgotten = at
		}
		return gone
	})
}

// since tells whether a process may have changed something at a time or later.
func (s *strangers) since(pid uint32, when time.Time) bool {
	return !s.forgotten.Before(when) || !s.at[pid].Before(when)
}
