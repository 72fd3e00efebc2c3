// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

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
