// SPDX-License-Identifier: Apache-2.0

package oncpu

import "time"

const (
	// ditherShare is the part of the period by which it is made longer and
	// shorter in turns.
	ditherShare = 64
	// ditherTurn is how long it is either, and at least ditherPeriods periods.
	ditherTurn    = time.Second
	ditherPeriods = 64
)

// dither keeps the samples out of step with what recurs on the host: a program
// that wakes every 8 ms would be seen always or never by a timer of 8 ms, and the
// kernel's own tick lets programs take turns. Longer and shorter periods take
// turns, so that the moments of the samples wander through any such rhythm, and
// the mean distance is the period that was asked for.
type dither struct {
	period time.Duration
	longer bool
	last   time.Time
}

// due says whether it is time for the next turn.
func (d *dither) due(now time.Time) bool {
	return now.Sub(d.last) >= max(ditherTurn, ditherPeriods*d.period)
}

// turn returns the period of the next turn. Setting a perf event's period starts
// its timer anew (kernel/events/core.c, __perf_event_period): half a period is lost
// on average, which all the periods since the last turn make up for.
func (d *dither) turn(now time.Time) time.Duration {
	lost := time.Duration(0)
	if elapsed := now.Sub(d.last); !d.last.IsZero() && elapsed > 0 {
		lost = time.Duration(float64(d.period) * float64(d.period) / (2 * float64(elapsed)))
	}
	d.last, d.longer = now, !d.longer
	swing := d.period / ditherShare
	if !d.longer {
		swing = -swing
	}
	return d.period - lost + swing
}
