// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

const (
	// backgroundShare is the part of limits::cpu_percent that work of each kind may take which can wait, in the long run: on lines, on small
	// symbol tables, on large ones, and on the unwind tables of large binaries.
	backgroundShare = 0.25
	// backgroundAtOnce is how much of what it may take over time such work may do at once: half a second of CPU time with
	// the default limit. The governor spreads it over a minute.
	backgroundAtOnce = 100 * time.Second
	// unwindAtOnce is the same of unwind tables of large binaries: four seconds, since a host may have many such from the start.
	unwindAtOnce = 800 * time.Second
)

// allowance makes work that can wait take no more of a CPU than its share. Nothing of it is used at first.
type allowance struct {
	share float64       // of a CPU
	once  time.Duration // of which the share may be spent at once
	spent time.Duration // and not made up for by time
	since time.Time
}

func newAllowance(cpuPercent float64, atOnce time.Duration, now time.Time) *allowance {
	return &allowance{share: backgroundShare * cpuPercent / 100, once: atOnce, since: now}
}

// spend records what a piece of work used, and returns how long the next one has to wait.
func (a *allowance) spend(now time.Time, used time.Duration) (wait time.Duration) {
	earned := time.Duration(float64(now.Sub(a.since)) * a.share)
	a.spent, a.since = max(a.spent-earned, 0)+used, now
	if over := a.spent - time.Duration(float64(a.once)*a.share); over > 0 {
		return time.Duration(float64(over) / a.share)
	}
	return 0
}
