// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// inheritFor is for how many seconds a process may be added with what the previous watch
// recorded of it.
const inheritFor = 60

// Resume goes on where another watch of this host has ended, which must not be used any
// more: with [Watch.Replace] and [Watch.Add], what has not changed goes on with its windows
// and its silence. A trigger whose outcome is not known is returned again.
func Resume(before *Watch) *Watch {
	before.mu.Lock()
	defer before.mu.Unlock()
	for _, m := range before.order {
		m.dirty = false
		for i := range m.subjects {
			m.subjects[i].gate.pending = false
		}
		for i := range m.resting {
			m.resting[i].gate.pending = false
		}
	}
	maps.Copy(before.members, before.inherited) // it has ended before it had read them all
	return &Watch{
		policies: before.policies, members: map[model.ProcessID]*member{}, inherited: before.members,
		read: before.read, requestWindows: before.requestWindows, gaugeWindows: before.gaugeWindows, bytes: before.bytes,
	}
}

// disinherit forgets the processes that were not added.
func (w *Watch) disinherit() {
	for _, m := range w.inherited {
		w.giveBack(m.subjects)
	}
	w.inherited = nil
}

// takeOver makes policies of which those rules go on that there were before.
func (w *Watch) takeOver(policies []Policy) []*watched {
	list := make([]*watched, len(policies))
	for i, p := range policies {
		list[i] = &watched{Policy: p, host: make([][]window, len(p.When)), paths: makePaths(p.When)}
		for j := range p.When {
			if rule := &p.When[j]; rule.Monitor.OfHost() {
				list[i].host[j] = []window{makeWindow(rule.Threshold, rule.Period, keptGauge)}
			}
		}
		if before := w.named(p.Name); before != nil {
			carry(list[i].host, list[i].When, before.host, before.When)
		}
	}
	return list
}

// carry has rules go on with the windows of those before that see the same.
func carry(windows [][]window, rules []Rule, before [][]window, old []Rule) {
	for i := range rules {
		for j := range old {
			if before[j] != nil && rules[i].same(&old[j]) {
				windows[i], before[j] = before[j], nil
				break
			}
		}
	}
}

func (w *Watch) named(name string) *watched {
	for _, p := range w.policies {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Replace watches by other policies from now on. Rules that were there in a policy of the
// same name go on with their windows, and a policy of the same name keeps its silence.
// matches returns the policies, by their index, that a process is watched by.
func (w *Watch) Replace(policies []Policy, matches func(*model.Process) []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.policies = w.takeOver(policies)
	for _, m := range slices.Clone(w.order) {
		m.returns()
		w.subject(m, matches(m.process))
		w.leave(m)
	}
}
