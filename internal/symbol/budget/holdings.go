// SPDX-License-Identifier: Apache-2.0

package budget

// UserFree is how many times the free part of a bound one user may hold. So some of it is always free for others (dynamic thresholds, A. K.
// Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998).
const UserFree = 8

// Holdings counts what is held for users, to bound it.
type Holdings struct {
	all int
	of  map[Account]int
}

// All is what is held for all users together.
func (u *Holdings) All() int { return u.all }

// Users is the number of users that hold something.
func (u *Holdings) Users() int { return len(u.of) }

// Add changes what is held for a user.
func (u *Holdings) Add(user Account, n int) {
	if u.of == nil {
		u.of = map[Account]int{}
	}
	u.all += n
	if u.of[user] += n; u.of[user] == 0 {
		delete(u.of, user)
	}
}

// Fits reports whether a user may hold one more, of most for all users together.
func (u *Holdings) Fits(user Account, most int) bool { return u.of[user] < UserFree*(most-u.all) }
