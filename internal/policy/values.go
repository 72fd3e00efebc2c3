// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// Value is the last value of a monitor, in its unit.
type Value struct {
	Policy  string
	Process *model.Process // nil of the host
	Monitor Monitor
	// Path is what narrows a monitor of requests, see [model.Cause].
	Path  string
	Value float64
}

// Values hands over the last value of each monitor of each policy once: those of the
// process by the last second, those of requests by the last of the last few seconds in
// which there was one, but for the very last, of which not all requests were told yet.
func (w *Watch) Values(each func(Value)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.policies {
		for i := range p.When {
			if value, ok := w.host[p.When[i].Monitor]; ok && p.first(i) {
				each(Value{Policy: p.Name, Monitor: p.When[i].Monitor, Value: value})
			}
		}
	}
	for _, m := range w.order {
		for i := range m.subjects {
			w.valuesOf(m, &m.subjects[i], each)
		}
	}
}

func (w *Watch) valuesOf(m *member, s *subject, each func(Value)) {
	for i := range s.of.When {
		rule := &s.of.When[i]
		if !s.of.first(i) {
			continue
		}
		told := Value{Policy: s.of.Name, Process: m.process, Monitor: rule.Monitor}
		var ok bool
		if told.Value, ok = m.value(rule.Monitor); ok {
			each(told)
			continue
		}
		if !rule.Monitor.OfRequests() {
			continue
		}
		for j := range s.windows[i] {
			win := &s.windows[i][j]
			if win.marks == nil {
				continue
			}
			if told.Value, ok = win.last(w.second - 1); ok {
				told.Path = rule.uri(j)
				each(told)
			}
		}
	}
}

// first tells whether no earlier rule says the same of the same.
func (p *watched) first(rule int) bool {
	r := &p.When[rule]
	for i := range rule {
		if before := &p.When[i]; before.Monitor == r.Monitor && (!r.Monitor.OfRequests() || before.uris() == r.uris()) {
			return false
		}
	}
	return true
}
