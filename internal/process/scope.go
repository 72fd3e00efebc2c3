// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Instance returns the processes in scope that belong to the same service instance as a process, that one included.
func (t *Table) Instance(of *model.Process) []*model.Process {
	return append([]*model.Process{of}, slices.DeleteFunc(t.Living(of), func(p *model.Process) bool { return p.ID == of.ID })...)
}

// Living returns the processes of the same instance that have not exited, as far as events reported it. A process that was not read yet is
// read now.
func (t *Table) Living(of *model.Process) (list []*model.Process) {
	for _, id := range t.ids(func(e *entry) bool { return e.inScope || e.undecided }) {
		if p, inScope, err := t.Lookup(id); err == nil && inScope && SameInstance(p, of) {
			list = append(list, p)
		}
	}
	return list
}

// SameInstance reports whether two processes belong to one instance of a service. If neither the environment, a selector nor a container
// names the instance, these are a master and its workers: other programs with the same executable share the service.instance.id, and may do
// something else.
func SameInstance(p, o *model.Process) bool {
	return p.ServiceName == o.ServiceName && p.ServiceInstanceID == o.ServiceInstanceID && p.Family == o.Family
}

// InScope returns the processes that are in scope, as far as that is decided.
func (t *Table) InScope() []model.ProcessID {
	return t.ids(func(e *entry) bool { return e.inScope && !e.undecided })
}

// ids returns the ids of the entries that satisfy a condition.
func (t *Table) ids(such func(*entry) bool) (list []model.ProcessID) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, e := range t.byPID {
		if such(e) {
			list = append(list, e.id)
		}
	}
	return list
}
