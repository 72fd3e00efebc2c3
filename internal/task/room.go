// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"slices"
)

// room is which observations with different options run. Those that are the same share one.
type room struct {
	most  int // 0: as many as are wanted
	taken []*taken
}

// taken is the room of one.
type taken struct {
	kind    string
	options any
	runs    int
}

// fits tells whether there is room for all runs of a task that have not ended.
func (o *room) fits(runs []*run) bool {
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

func (o *room) of(one *run) *taken {
	for _, t := range o.taken {
		if t.kind == one.kind && reflect.DeepEqual(t.options, one.options) {
			return t
		}
	}
	return nil
}

// enter takes room for a run.
func (o *room) enter(one *run) {
	t := o.of(one)
	if t == nil {
		t = &taken{kind: one.kind, options: one.options}
		o.taken = append(o.taken, t)
	}
	t.runs++
	one.room = t
}

// leave gives it back, and tells whether there is more room than before.
func (o *room) leave(one *run) (more bool) {
	t := one.room
	if t == nil {
		return false
	}
	one.room = nil
	if t.runs--; t.runs > 0 {
		return false
	}
	o.taken = slices.DeleteFunc(o.taken, func(other *taken) bool { return other == t })
	return true
}
