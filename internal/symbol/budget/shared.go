// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"sync"
	"time"
)

const (
	// MapsAtOnce is how much of its share a user may use at once for memory maps: a second of CPU time with the default limit, in which some
	// 10,000 files are opened. TablesAtOnce is the value for unwind tables: four seconds, as for those of large binaries.
	MapsAtOnce, TablesAtOnce = 200 * time.Second, 800 * time.Second
	// leastAtOnce is the divisor for what one reading may use at least when it need not wait: less would read a map of many files again for each
	// of them.
	leastAtOnce = 10
	// maxMapUsers bounds the users with an account. All further ones share one account.
	maxMapUsers = 1024
	// settleEvery is the interval at which users without a debt lose their account: their part is that of the others.
	settleEvery = time.Second
)

// Shared bounds the CPU time of reading memory maps when programs map new files, or map code all the time. All active users have equal
// parts of the share: parts by process would be no bound, since any number of processes can be forked. When a user's part is used up, maps of
// its processes are reread later, and new files are left out of maps that are read without delay, such as those of new processes. It is
// safe for concurrent use.
type Shared struct {
	share float64       // of a CPU; 0: no bound
	once  time.Duration // of which a user may spend its part at once

	mu      sync.Mutex
	users   map[Account]*balance
	settled time.Time // when accounts without a debt were last dropped
}

// balance is what a user has used and not yet earned.
type balance struct {
	spent time.Duration
	since time.Time
	over  bool // as was last reported
}

func New(share float64, once time.Duration) *Shared {
	return &Shared{share: share, once: once, users: map[Account]*balance{}}
}

// Allowance is the CPU time that one reading of a map of a user's process may spend on new files.
func (m *Shared) Allowance(user Account, now time.Time) time.Duration {
	if m.share <= 0 {
		return math.MaxInt64
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(now)
	a := m.account(user)
	if a == nil {
		return m.atOnce(len(m.users) + 1)
	}
	if m.waitOf(a, now) > 0 {
		return 0
	}
	most := m.atOnce(len(m.users))
	return max(most-a.spent, most/leastAtOnce)
}

// atOnce is what each of so many users may spend at once.
func (m *Shared) atOnce(users int) time.Duration {
	return time.Duration(float64(m.once) * m.share / float64(users))
}

// Owes is what a user has spent and not yet earned, as of its last charge.
func (m *Shared) Owes(user Account) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.account(user); a != nil {
		return a.spent
	}
	return 0
}

// Users is the number of users with an account.
func (m *Shared) Users() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.users)
}

// account returns the account of a user, nil while there is none. The lock is held.
func (m *Shared) account(user Account) *balance {
	a := m.users[user]
	if a == nil && len(m.users) >= maxMapUsers {
		a = m.users[Overflow]
	}
	return a
}

// Spend charges a user. It reports whether the user has just exceeded its part.
func (m *Shared) Spend(user Account, now time.Time, used time.Duration) (over bool) {
	if m.share <= 0 || used <= 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(now)
	a := m.account(user)
	if a == nil {
		if len(m.users) >= maxMapUsers {
			user = Overflow
		}
		a = &balance{since: now}
		m.users[user] = a
	}
	a.spent += used
	return m.justOver(a, now)
}

// Wait is how long a deferrable reading of a user's map must wait. It also reports whether the user has just exceeded its part, which another
// user may have caused by an account of its own.
func (m *Shared) Wait(user Account, now time.Time) (wait time.Duration, over bool) {
	if m.share <= 0 {
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(now)
	a := m.account(user)
	if a == nil {
		return 0, false
	}
	over = m.justOver(a, now)
	return m.waitOf(a, now), over
}

// justOver reports whether an account is over its part, and was not when this was last asked. The lock is held.
func (m *Shared) justOver(a *balance, now time.Time) bool {
	before := a.over
	a.over = m.waitOf(a, now) > 0
	return a.over && !before
}

// waitOf credits an account its part of the share, and returns how long it takes until its balance is positive. The lock is held.
func (m *Shared) waitOf(a *balance, now time.Time) time.Duration {
	part := m.share / float64(len(m.users))
	a.earn(now, part)
	if over := a.spent - time.Duration(float64(m.once)*part); over > 0 {
		return min(time.Duration(float64(over)/part)+1, paceLongest)
	}
	return 0
}

// earn credits an account a part of the share.
func (a *balance) earn(now time.Time, part float64) {
	if passed := now.Sub(a.since); passed > 0 {
		a.spent = max(a.spent-time.Duration(float64(passed)*part), 0)
		a.since = now
	}
}

// settle drops the accounts without a debt, from time to time. The lock is held.
func (m *Shared) settle(now time.Time) {
	if now.Sub(m.settled) < settleEvery {
		return
	}
	m.settled = now
	part := m.share / float64(len(m.users))
	for user, a := range m.users {
		if a.earn(now, part); a.spent == 0 {
			delete(m.users, user)
		}
	}
}
