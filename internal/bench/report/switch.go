// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"time"
)

// States of [Switch.State].
const (
	SwitchBare      = "nothing attached"
	SwitchEmpty     = "an empty program on sched_switch"
	SwitchEmptyBoth = "empty programs on sched_switch and sched_exit_tp"
	SwitchOutside   = "off_cpu, process out of scope"
	SwitchInside    = "off_cpu, process in scope, waits below min_block"
)

// Switch is what a switch from one thread to another takes in one state, with the
// write and read that lead to it, measured in turns with the other states.
type Switch struct {
	State string
	Turns []time.Duration
}

// over is the median of what a state takes beyond another, turn by turn.
func over(a, b *Switch) time.Duration {
	var differences []time.Duration
	for i := range min(len(a.Turns), len(b.Turns)) {
		differences = append(differences, a.Turns[i]-b.Turns[i])
	}
	return median(differences)
}

// switchOf returns a state that was measured, or an empty one.
func (r *Report) switchOf(state string) *Switch {
	for i := range r.Switches {
		if r.Switches[i].State == state {
			return &r.Switches[i]
		}
	}
	return &Switch{}
}

func (r *Report) printSwitches(w io.Writer) {
	if len(r.Switches) == 0 {
		return
	}
	fmt.Fprintf(w, "\nTwo threads on one CPU that wake each other through pipes: time of a switch, median of %d turns\n", len(r.Switches[0].Turns))
	fmt.Fprintf(w, "  state\ttime\tadded\tbeyond empty\n")
	bare, empty := r.switchOf(SwitchBare), r.switchOf(SwitchEmpty)
	for i := range r.Switches {
		s := &r.Switches[i]
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", s.State, short(median(s.Turns)), short(over(s, bare)), short(over(s, empty)))
	}
}

// The targets of off_cpu.
const (
	maxSwitchInside  = 400 * time.Nanosecond
	maxSwitchOutside = 60 * time.Nanosecond
)

func (r *Report) judgeSwitches(add addTarget) {
	bare, empty, both := r.switchOf(SwitchBare), r.switchOf(SwitchEmpty), r.switchOf(SwitchEmptyBoth)
	outside, inside := r.switchOf(SwitchOutside), r.switchOf(SwitchInside)
	measured := len(inside.Turns) > 0
	duration(add, "off_cpu adds to a switch in scope, wait below min_block", maxSwitchInside, over(inside, bare), measured)
	duration(add, "off_cpu adds to a switch out of scope, beyond empty programs on its hooks", maxSwitchOutside, over(outside, both), measured)
	duration(add, "off_cpu adds to a switch out of scope, beyond one on sched_switch alone", maxSwitchOutside, over(outside, empty), measured)
}
