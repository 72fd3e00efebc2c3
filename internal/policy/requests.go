// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// Request is a request that a process has answered.
type Request struct {
	// Second is the one in which it ended.
	Second int64
	// Path is without query; Begins as of [Requests].
	Path   []byte
	Begins bool
	// Status is 0 where it is not known. Unanswered: there is none, since the connection or the stream has ended without a response.
	Status     int
	Unanswered bool
	// Took is how long it took, where Timed says so.
	Took  time.Duration
	Timed bool
}

// Request takes a request that a process has answered.
func (w *Watch) Request(id model.ProcessID, r Request) {
	all := Requests{Second: r.Second, Path: r.Path, Begins: r.Begins}
	if r.Status != 0 || r.Unanswered {
		all.Known = 1
	}
	if r.Status >= 500 && r.Status <= 599 || r.Unanswered {
		all.Errors = 1
	}
	if r.Timed {
		all.Timed, all.Took = 1, r.Took
	}
	w.Requests(id, all)
}

// Requests are what a process has answered in a second.
type Requests struct {
	Second int64
	// Path is that of all of them, without query; where Begins says so, how their paths begin, as of
	// [Wanted].Begun. It is empty where it is none that a rule names.
	Path   []byte
	Begins bool
	// Known are those whose status is known, and those without a response; Errors of them those with 500 to 599, and those without.
	Known, Errors uint64
	// Timed are those of which it is known how long they took, Took together.
	Timed uint64
	Took  time.Duration
}

// Requests takes what a process has answered in a second; it adds to what is known of that second.
func (w *Watch) Requests(id model.ProcessID, r Requests) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.members[id]
	if m == nil {
		return
	}
	if w.second != 0 && r.Second > w.second+LateBy { // the policies were not evaluated for long, or it is by another clock
		w.stats.Late += max(r.Known, r.Timed)
		return
	}
	ended := monitor.Requests{Known: r.Known, Errors: r.Errors, Timed: r.Timed, Took: r.Took}
	w.key = append(append(w.key[:0], begun(r.Begins)), r.Path...)
	for i := range m.subjects {
		s := &m.subjects[i]
		found, matches, ok := s.of.paths.find(s.of.When, w.key, r.Path, r.Begins, maxMatches-w.matches)
		w.matches += matches
		if !ok {
			w.stats.Unmatched += max(r.Known, r.Timed)
		}
		for j, place := range found {
			if place == noPlace {
				continue
			}
			if sum, n := s.of.When[j].Monitor.Requests(ended); n > 0 {
				w.count(s, j, int(place), &r, sum, n)
			}
		}
	}
	if !m.dirty {
		m.dirty = true
		w.dirty = append(w.dirty, m)
	}
}

// begun distinguishes paths from prefixes of paths in the keys of the cache.
func begun(begins bool) byte {
	if begins {
		return '^'
	}
	return '='
}

// count adds requests to the window of a rule that they count for.
func (w *Watch) count(s *subject, rule, place int, r *Requests, sum float64, n uint64) {
	of := &s.of.When[rule]
	if s.windows[rule] == nil {
		s.windows[rule] = make([]window, of.windows())
	}
	to := &s.windows[rule][place]
	if to.marks == nil {
		if w.requestWindows >= maxRequestWindows {
			w.stats.Crowded += n
			return
		}
		*to = makeWindow(of.Threshold, of.Period, LateBy)
		w.requestWindows++
		w.bytes += to.bytes()
	}
	if !to.add(r.Second, sum, float64(n)) {
		w.stats.Late += n
	}
}
