// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// gate holds a policy still for one process. The moments are of CLOCK_BOOTTIME.
type gate struct {
	// asked says that a trigger was told, and nobody has said yet what came of it.
	asked bool
	// until is when the gate opens again.
	until time.Duration
	// told says that somebody was told of a trigger since the last run, though it started nothing.
	told bool
	// failures is how many triggers in a row have started nothing.
	failures int
}

// longestRetry is the longest time between two triggers that start nothing.
const longestRetry = time.Minute

func (g *gate) open(now time.Duration) bool { return !g.asked && now >= g.until }

// started is told when the run has begun: silence counts from then.
func (g *gate) started(at, silence time.Duration) { *g = gate{until: at + silence} }

// failed opens the gate again: for the next look at first, then after a time that doubles,
// for what could not start a moment ago will hardly start each second. told says that somebody
// was told of the trigger.
func (g *gate) failed(now time.Duration, told bool) {
	wait := longestRetry
	if g.failures < 7 {
		wait = min(wait, time.Duration(1<<g.failures)*time.Second)
	}
	if g.failures == 0 {
		wait = 0
	}
	*g = gate{until: max(g.until, now+wait), failures: g.failures + 1, told: g.told || told}
}
