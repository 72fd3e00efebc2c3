// SPDX-License-Identifier: Apache-2.0

// Package budget shares bounds among users: the CPU time of work that can be deferred, and the capacity of tables. Users share equally,
// and not processes, since any number of processes can be forked.
package budget

import "strconv"

// Account is what processes share of bounds by user: a user id, or one of the constants below. The processes of a user namespace share the
// account of the user who created it, in the initial namespace: there any user may have tens of thousands of ids (subuid(5)).
type Account int64

const (
	// Unknown is that of processes whose user cannot be read, since they have exited.
	Unknown Account = -1 - iota
	// Overflow is that of the users beyond a bound.
	Overflow
)

// String names the account in log lines.
func (a Account) String() string {
	switch a {
	case Unknown:
		return "users that are not known"
	case Overflow:
		return "further users"
	}
	return "user " + strconv.FormatInt(int64(a), 10)
}
