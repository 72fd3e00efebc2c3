// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"time"
)

const (
	// pressureWindow is the time over which it is counted what names lack.
	pressureWindow = 30 * time.Second
	// crowdedTables is from how many tables on that were built again, or passes that were made instead, there is too little memory, and
	// lateShare the share of frames without a name from which on there is too little CPU time; of few frames nothing is said.
	crowdedTables = 2
	lateShare     = 0.01
	lateFrames    = 100
	// calmPressure is how many windows without either it takes until all is well again.
	calmPressure = 2
)

// symbolCounts are counters of the symbolizer, since the start.
type symbolCounts struct {
	rebuilt, passes uint64 // tables built again soon after they were dropped, and passes over files whose tables do not fit in memory
	late, frames    uint64 // frames that were exported before their names were found, and all
}

// symbolPressure finds out whether names are missing since there is too little memory for symbol tables, or too little CPU time to read
// them. It is a pure function of what it is given.
type symbolPressure struct {
	memoryBytes uint64 // what symbols may take

	since time.Time
	last  symbolCounts
	calm  int
	why   error
}

// observe takes the counters, and returns what is wrong, nil when nothing is.
func (p *symbolPressure) observe(now time.Time, c symbolCounts) error {
	if p.since.IsZero() {
		p.since, p.last = now, c
	}
	if now.Sub(p.since) < pressureWindow {
		return p.why
	}
	why := p.judge(symbolCounts{c.rebuilt - p.last.rebuilt, c.passes - p.last.passes, c.late - p.last.late, c.frames - p.last.frames})
	p.since, p.last = now, c
	if why != nil {
		p.why, p.calm = why, 0
	} else if p.calm++; p.calm >= calmPressure {
		p.why = nil
	}
	return p.why
}

// judge returns what is wrong with a window.
func (p *symbolPressure) judge(c symbolCounts) error {
	var errs []error
	if c.rebuilt+c.passes >= crowdedTables {
		errs = append(errs, fmt.Errorf("symbol tables need more than their share of limits::memory_mib, %d MiB: %d were built again and %d passes over "+
			"files were made within %s; raise limits::memory_mib or narrow targets", p.memoryBytes>>20, c.rebuilt, c.passes, pressureWindow))
	}
	if c.late >= lateFrames && float64(c.late) >= lateShare*float64(c.frames) {
		errs = append(errs, fmt.Errorf("%d of %d frames were exported as addresses within %s, since the work on names keeps to its share of "+
			"limits::cpu_percent; narrow targets, or raise limits::cpu_percent", c.late, c.frames, pressureWindow))
	}
	return errors.Join(errs...)
}
