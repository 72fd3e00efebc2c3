// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"time"
)

const (
	// maxUnfollowed bounds the processes that are remembered. Where there are more, unfollowedRetention
	// is for how long they are: reading a process takes less.
	maxUnfollowed       = 4096
	unfollowedRetention = 5 * time.Second
)

// unfollowed remembers when processes that were not followed last changed something.
type unfollowed struct {
	at        map[uint32]time.Time // by pid
	forgotten time.Time            // the last of those that are no longer remembered
}

// note records that a process has changed something.
func (s *unfollowed) note(pid uint32, now time.Time) {
	if s.at == nil {
		s.at = map[uint32]time.Time{}
	}
	if len(s.at) >= maxUnfollowed {
		s.forget(now.Add(-unfollowedRetention))
	}
	if len(s.at) >= maxUnfollowed {
		s.forget(now)
	}
	s.at[pid] = now
}

// forget drops the processes that were noted until a time.
func (s *unfollowed) forget(by time.Time) {
	maps.DeleteFunc(s.at, func(_ uint32, at time.Time) bool {
		gone := !at.After(by)
		if gone && at.After(s.forgotten) {
			s.forgotten = at
		}
		return gone
	})
}

// since reports whether a process may have changed something at a time or later.
func (s *unfollowed) since(pid uint32, when time.Time) bool {
	return !s.forgotten.Before(when) || !s.at[pid].Before(when)
}
