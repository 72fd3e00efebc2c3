// SPDX-License-Identifier: Apache-2.0

package oncpu

import (
	"math"
	"time"
)

const (
	// ditherShare is the largest part of the rate by which it is raised and lowered in turns.
	ditherShare = 1.0 / 16
	// ditherTurn is how long it is either, and at least ditherPeriods periods.
	ditherTurn    = time.Second
	ditherPeriods = 16
)

// dither keeps the samples out of step with what recurs on the host: a program
// that wakes every 8 ms would be seen always or never by a timer of 8 ms, and the
// kernel's own tick lets programs take turns. A lower and a higher rate take turns,
// so that the moments of the samples wander through any such rhythm, and the mean
// rate is the one that was asked for. Each pair of turns swings by another part: a
// rhythm that keeps step with one of them does not with the next.
type dither struct {
	period time.Duration
	turns  int
	last   time.Time
}

// due reports whether it is time for the next turn.
func (d *dither) due(now time.Time) bool {
	return now.Sub(d.last) >= max(ditherTurn, ditherPeriods*d.period)
}

// turn returns the period of the next turn. Setting a perf event's period starts
// its timer anew (kernel/events/core.c, __perf_event_period): half a period is lost
// on average, which all the periods since the last turn make up for.
func (d *dither) turn(now time.Time) time.Duration {
	lost := 0.0
	if elapsed := now.Sub(d.last); !d.last.IsZero() && elapsed > 0 {
		lost = float64(d.period) * float64(d.period) / (2 * float64(elapsed))
	}
	swing := d.swing()
	d.last = now
	d.turns++
	return time.Duration((float64(d.period) - lost) / (1 + swing))
}

// swing is the part by which the next turn's rate differs: of the quarters above the
// first of ditherShare, in the order of the multiples of the golden ratio, which
// spreads any number of them evenly (Knuth, The Art of Computer Programming, 6.4).
func (d *dither) swing() float64 {
	_, part := math.Modf(float64(d.turns/2) * math.Phi)
	swing := ditherShare * (1 + 3*part) / 4
	if d.turns%2 == 0 {
		return -swing
	}
	return swing
}
