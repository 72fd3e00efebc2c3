// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// gate keeps a policy from triggering for one process. The moments are of CLOCK_BOOTTIME.
type gate struct {
	// pending: a trigger was returned, and its outcome is not known yet.
	pending bool
	// until is when the gate opens again.
	until time.Duration
	// reported: a trigger was reported since the last run, though it started nothing.
	reported bool
	// failures is how many triggers in a row have started nothing.
	failures int
}

// longestRetry is the longest time between two triggers that start nothing.
const longestRetry = time.Minute

func (g *gate) open(now time.Duration) bool { return !g.pending && now >= g.until }

// started records that a run has begun: silence counts from then.
func (g *gate) started(at, silence time.Duration) { *g = gate{until: at + silence} }

// failed opens the gate again: for the next evaluation at first, then after a time that doubles:
// what could not start a moment ago is unlikely to start in the next second. reported: the trigger was
// reported.
func (g *gate) failed(now time.Duration, reported bool) {
	wait := longestRetry
	if g.failures < 7 {
		wait = min(wait, time.Duration(1<<g.failures)*time.Second)
	}
	if g.failures == 0 {
		wait = 0
	}
	*g = gate{until: max(g.until, now+wait), failures: g.failures + 1, reported: g.reported || reported}
}
