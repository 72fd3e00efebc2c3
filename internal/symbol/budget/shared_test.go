// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMapBudget lets users spend a hundredth of a CPU: one alone, then two.
func TestMapBudget(t *testing.T) {
	now := time.Unix(0, 0)
	m := New(0.01, 100*time.Second)
	require.Zero(t, waitOf(m, 1, now))
	require.False(t, m.Spend(1, now, time.Second))
	require.Zero(t, waitOf(m, 1, now), "a hundred seconds' worth may be spent at once")
	require.True(t, m.Spend(1, now, 10*time.Millisecond))
	require.False(t, m.Spend(1, now, 10*time.Millisecond), "it is over already")
	require.InDelta(t, 2*time.Second, waitOf(m, 1, now), 10)
	require.Zero(t, waitOf(m, 2, now), "another user does not wait")
	now = now.Add(time.Second)
	require.InDelta(t, time.Second, waitOf(m, 1, now), 10)
	now = now.Add(time.Second)
	require.Zero(t, waitOf(m, 1, now))

	require.False(t, m.Spend(2, now, 400*time.Millisecond))
	require.Zero(t, waitOf(m, 2, now), "half of it is this user's")
	require.InDelta(t, paceLongest, waitOf(m, 1, now), 0, "and half of it is the other's, which has spent twice that")
	require.True(t, m.Spend(2, now, 110*time.Millisecond))
	require.InDelta(t, 2*time.Second, waitOf(m, 2, now), 10)

	now = now.Add(5 * time.Minute)
	require.Zero(t, waitOf(m, 3, now))
	require.Empty(t, m.users, "no user owes anything")
}

// waitOf is how long a user must wait.
func waitOf(m *Shared, user Account, now time.Time) time.Duration {
	wait, _ := m.Wait(user, now)
	return wait
}

// TestPartOfUsersWithoutDebt has a thousand users spend something, a day before one spends what is a part of its own share only.
func TestPartOfUsersWithoutDebt(t *testing.T) {
	now := time.Unix(0, 0)
	m := New(0.005, 100*time.Second)
	for user := range Account(1000) {
		require.False(t, m.Spend(user, now, time.Microsecond))
	}
	now = now.Add(24 * time.Hour)
	require.False(t, m.Spend(5000, now, 20*time.Millisecond))
	require.Zero(t, waitOf(m, 5000, now), "20 ms of 500 ms")
	require.Len(t, m.users, 1)
	require.Equal(t, 480*time.Millisecond, m.Allowance(5000, now))
}

// TestUserOverSinceOthersSpend has a user exceed its part since another one has an account: that is reported once, when it next spends or has
// to wait.
func TestUserOverSinceOthersSpend(t *testing.T) {
	for _, spends := range []bool{true, false} {
		now := time.Unix(0, 0)
		m := New(0.01, 100*time.Second)
		require.False(t, m.Spend(1, now, 900*time.Millisecond))
		require.False(t, m.Spend(2, now, time.Millisecond), "the other is not over")
		reports := 0
		for range 5 {
			var over bool
			if now = now.Add(10 * time.Millisecond); spends {
				over = m.Spend(1, now, time.Millisecond)
			} else {
				_, over = m.Wait(1, now)
			}
			if over {
				reports++
			}
		}
		require.Equal(t, 1, reports)
		require.NotZero(t, waitOf(m, 1, now))
		now = now.Add(time.Hour)
		require.Zero(t, waitOf(m, 1, now))
		require.True(t, m.Spend(1, now, 2*time.Second), "it is reported again")
	}
}

// TestMapBudgetOfManyUsers checks that the number of accounts is bounded, and that users beyond the bound share one.
func TestMapBudgetOfManyUsers(t *testing.T) {
	now := time.Unix(0, 0)
	m := New(0.01, 100*time.Second)
	for user := range Account(10 * maxMapUsers) {
		m.Spend(user, now, time.Millisecond)
	}
	require.LessOrEqual(t, len(m.users), maxMapUsers+1)
	require.Contains(t, m.users, Overflow)
	require.NotContains(t, m.users, Account(65534), "user 65534 is a user like others")
	require.NotZero(t, waitOf(m, 20*maxMapUsers, now))
	now = now.Add(1000 * 24 * time.Hour)
	require.Zero(t, waitOf(m, 20*maxMapUsers, now))
	m.Spend(20*maxMapUsers, now, time.Millisecond)
	require.Len(t, m.users, 1)
}

// TestNoMapBudget checks that no user waits if there is no bound.
func TestNoMapBudget(t *testing.T) {
	m := New(0, MapsAtOnce)
	require.False(t, m.Spend(1, time.Unix(0, 0), time.Hour))
	require.Zero(t, waitOf(m, 1, time.Unix(0, 0)))
}
