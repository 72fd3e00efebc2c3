// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// Value is the last value of a monitor, in its unit.
type Value struct {
	Policy  string
	Process *model.Process // nil of the host
	Monitor *monitor.Descriptor
	// Path is what narrows a monitor of requests, see [model.Cause].
	Path  string
	Value float64
}

// Values calls each with the last value of each monitor of each policy once: those of the
// process by the last second, those of requests by the last of the last few seconds in
// which there was one, but for the very last, of which not all requests have arrived yet.
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
		last := Value{Policy: s.of.Name, Process: m.process, Monitor: rule.Monitor}
		var ok bool
		if last.Value, ok = m.value(rule.Monitor); ok {
			each(last)
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
			if last.Value, ok = win.last(w.second - 1); ok {
				last.Path = rule.uri(j)
				each(last)
			}
		}
	}
}

// first reports whether no earlier rule has the same monitor of the same requests.
func (p *watched) first(rule int) bool {
	r := &p.When[rule]
	for i := range rule {
		if before := &p.When[i]; before.Monitor == r.Monitor && (!r.Monitor.OfRequests() || before.uris() == r.uris()) {
			return false
		}
	}
	return true
}
