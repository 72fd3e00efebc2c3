// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// maxSpans bounds the gaps that are distinguished.
const maxSpans = 1024

// span is an interval of time.
type span struct{ start, end time.Time }

// spans is the time that profiles cover: a union of intervals, in order.
type spans struct{ list []span }

// add joins the interval with those that it overlaps or touches.
func (s *spans) add(start time.Time, d time.Duration) {
	add := span{start, start.Add(d)}
	first, _ := slices.BinarySearchFunc(s.list, add.start, func(e span, t time.Time) int { return e.end.Compare(t) })
	last := first
	for last < len(s.list) && !s.list[last].start.After(add.end) {
		if s.list[last].start.Before(add.start) {
			add.start = s.list[last].start
		}
		if s.list[last].end.After(add.end) {
			add.end = s.list[last].end
		}
		last++
	}
	s.list = slices.Replace(s.list, first, last, add)
	if len(s.list) > maxSpans {
		s.list = slices.Replace(s.list, 0, 2, span{s.list[0].start, s.list[1].end})
	}
}

// covered is the length of all intervals.
func (s *spans) covered() time.Duration {
	var d time.Duration
	for _, e := range s.list {
		d += e.end.Sub(e.start)
	}
	return d
}

// end is the end of the last interval.
func (s *spans) end() time.Time {
	if len(s.list) == 0 {
		return time.Time{}
	}
	return s.list[len(s.list)-1].end
}
