// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

const (
	// besideShare is the part of limits::cpu_percent that work may take which can wait, in the long run.
	besideShare = 0.25
	// besideAtOnce is how much of what it may take over time such work may do at once: half a second of CPU time with
	// the default limit. The governor spreads it over a minute.
	besideAtOnce = 100 * time.Second
)

// allowance makes work that can wait take no more of a CPU than its share. Nothing of it is used at first.
type allowance struct {
	share float64       // of a CPU
	spent time.Duration // and not made up for by time
	since time.Time
}

func newAllowance(cpuPercent float64, now time.Time) *allowance {
	return &allowance{share: besideShare * cpuPercent / 100, since: now}
}

// spend is told what a piece of work used, and says how long the next one has to wait.
func (a *allowance) spend(now time.Time, used time.Duration) (wait time.Duration) {
	earned := time.Duration(float64(now.Sub(a.since)) * a.share)
	a.spent, a.since = max(a.spent-earned, 0)+used, now
	if over := a.spent - time.Duration(float64(besideAtOnce)*a.share); over > 0 {
		return time.Duration(float64(over) / a.share)
	}
	return 0
}
