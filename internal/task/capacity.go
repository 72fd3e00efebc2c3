// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"slices"
)

// capacity counts the running observations with different options. Runs with the same options share
// one.
type capacity struct {
	most  int // 0: as many as are wanted
	taken []*sharedObservation
}

// sharedObservation is one of these.
type sharedObservation struct {
	kind    string
	options any
	runs    int
}

// fits reports whether there is capacity for all runs of a task that have not ended.
func (o *capacity) fits(runs []*run) bool {
	if o.most == 0 {
		return true
	}
	more := len(o.taken)
	for _, one := range runs {
		if one.state != Ended && o.of(one) == nil {
			more++ // a task has each kind once
		}
	}
	return more <= o.most
}

func (o *capacity) of(one *run) *sharedObservation {
	for _, t := range o.taken {
		if t.kind == one.kind && reflect.DeepEqual(t.options, one.options) {
			return t
		}
	}
	return nil
}

// enter takes capacity for a run.
func (o *capacity) enter(one *run) {
	t := o.of(one)
	if t == nil {
		t = &sharedObservation{kind: one.kind, options: one.options}
		o.taken = append(o.taken, t)
	}
	t.runs++
	one.shared = t
}

// leave releases the observation, and reports whether there is more capacity than
// before.
func (o *capacity) leave(one *run) (more bool) {
	t := one.shared
	if t == nil {
		return false
	}
	one.shared = nil
	if t.runs--; t.runs > 0 {
		return false
	}
	o.taken = slices.DeleteFunc(o.taken, func(other *sharedObservation) bool { return other == t })
	return true
}
