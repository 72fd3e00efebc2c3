// SPDX-License-Identifier: Apache-2.0

package stacks

import "time"

const (
	minPace = 50 * time.Millisecond
	maxPace = time.Second
	// wantedFill is how full the fullest table is to be at a drain.
	wantedFill = 0.4
)

// Pace is how often tables are to be emptied that fill at no known rate: as often
// as keeps them below half full, judged by the last interval.
type Pace struct {
	interval time.Duration
}

// NewPace begins cautiously.
func NewPace() Pace { return Pace{interval: maxPace / 4} }

// Interval is the time to the next drain.
func (p *Pace) Interval() time.Duration { return p.interval }

// Drained takes how full the fullest table was, from 0 to 1. The interval becomes
// shorter at once, and longer by a half at a time.
func (p *Pace) Drained(fill float64) {
	longest := min(p.interval*3/2, maxPace)
	if fill > 0 {
		longest = min(longest, time.Duration(wantedFill/fill*float64(p.interval)))
	}
	p.interval = max(longest, minPace)
}
