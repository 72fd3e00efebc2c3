// SPDX-License-Identifier: Apache-2.0

package budget

import "time"

// forgetSpent is the half-life of what a user has spent.
const forgetSpent = 10 * time.Second

// Spending is the recent CPU time of a lane, by user. by process it would be no measure: any number of processes can be forked.
type Spending struct {
	by        map[Account]time.Duration
	forgotten time.Time
}

func NewSpending() Spending { return Spending{by: map[Account]time.Duration{}} }

// Of is what a user has spent recently.
func (s *Spending) Of(user Account) time.Duration { return s.by[user] }

// Add charges a user.
func (s *Spending) Add(user Account, used time.Duration) { s.by[user] += used }

// Forget reduces what was spent as time passes.
func (s *Spending) Forget(now time.Time) {
	for ; now.Sub(s.forgotten) >= forgetSpent; s.forgotten = s.forgotten.Add(forgetSpent) {
		if now.Sub(s.forgotten) > time.Minute {
			clear(s.by)
			s.forgotten = now
			return
		}
		for user, spent := range s.by {
			if s.by[user] = spent / 2; spent < time.Millisecond {
				delete(s.by, user)
			}
		}
	}
}
