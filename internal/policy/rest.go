// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// rested is the gate of a policy that matches a process no more: it may again, as where a service
// closes its port and opens it anew, and its silence goes on.
type rested struct {
	policy string
	gate   gate
}

// rest keeps the gates that are shut of those policies that a process was watched by, or had been,
// and is no more.
func (w *Watch) rest(m *member, before []subject) {
	list := m.resting
	for i := range before {
		list = append(list, rested{before[i].of.Name, before[i].gate})
	}
	m.resting = slices.DeleteFunc(list, func(r rested) bool {
		watched := slices.ContainsFunc(m.subjects, func(s subject) bool { return s.of.Name == r.policy })
		return watched || w.named(r.policy) == nil || r.gate.open(w.read)
	})
}

// rested returns the gate that rests of a policy.
func (m *member) rested(policy string) *gate {
	for i := range m.resting {
		if m.resting[i].policy == policy {
			return &m.resting[i].gate
		}
	}
	return nil
}

// RestoreSilence restores the silence period of a policy that started something for a process at a moment of
// CLOCK_BOOTTIME, before this watch began. A process that is not watched yet may be added within [inheritFor] seconds.
func (w *Watch) RestoreSilence(policy string, id model.ProcessID, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.named(policy)
	if of == nil || at < beginning(id) { // replaced; or that was another boot's process
		return
	}
	m := w.members[id]
	if m == nil {
		m = w.inherited[id]
	}
	if m == nil {
		m = &member{}
		if w.inherited == nil {
			w.inherited = map[model.ProcessID]*member{}
		}
		w.inherited[id] = m
	}
	m.silence(policy, at+of.Silence)
}

// silence has a policy fire for a process no earlier than at a moment.
func (m *member) silence(policy string, until time.Duration) {
	gate := m.rested(policy)
	for i := range m.subjects {
		if m.subjects[i].of.Name == policy {
			gate = &m.subjects[i].gate
		}
	}
	if gate == nil {
		m.resting = append(m.resting, rested{policy: policy})
		gate = &m.resting[len(m.resting)-1].gate
	}
	gate.until = max(gate.until, until)
}
