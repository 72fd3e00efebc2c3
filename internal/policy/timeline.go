// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// Timeline numbers seconds: they begin when the wall clock's do, and a step of that
// clock neither repeats nor skips one. Time is that of a clock which is never set
// (CLOCK_BOOTTIME, which runs on while the host sleeps).
type Timeline struct {
	begun bool
	// offset is the wall clock's lead, steps how many whole seconds it was set forward.
	offset time.Duration
	steps  int64
}

// Follow takes how both clocks stand at one moment, and returns by how many whole
// seconds the wall clock was set since the last call. What it differs by less, seconds
// follow: they begin with the wall clock's again.
func (t *Timeline) Follow(wall time.Time, boot time.Duration) (stepped int64) {
	offset := time.Duration(wall.UnixNano()) - boot
	if t.begun {
		stepped = int64((offset - t.offset).Round(time.Second) / time.Second)
	}
	t.begun = true
	t.offset = offset
	t.steps += stepped
	return stepped
}

// Second is the number of the second that a moment falls in.
func (t *Timeline) Second(boot time.Duration) int64 {
	at, second := boot+t.offset, time.Second
	n := int64(at / second)
	if at%second < 0 {
		n--
	}
	return n - t.steps
}

// Ahead is by how much a clock is ahead of that of moments whose seconds, counted from 0, have the same numbers.
func (t *Timeline) Ahead() time.Duration { return t.offset - time.Duration(t.steps)*time.Second }

// Ends is the moment at which a second has ended.
func (t *Timeline) Ends(second int64) (boot time.Duration) {
	return time.Duration(second+1+t.steps)*time.Second - t.offset
}

// Wall is when a second began, by the wall clock as it was at the last Follow.
func (t *Timeline) Wall(second int64) time.Time { return time.Unix(second+t.steps, 0) }
