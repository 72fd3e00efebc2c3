// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Instance returns the processes in scope that are of the same instance of a service as
// one of them, that one included.
func (t *Table) Instance(of *model.Process) []*model.Process {
	return append([]*model.Process{of}, slices.DeleteFunc(t.Living(of), func(p *model.Process) bool { return p.ID == of.ID })...)
}

// Living are those of them that have not ended, as far as it was told. Who has not been read
// yet is read now.
func (t *Table) Living(of *model.Process) (list []*model.Process) {
	for _, id := range t.ids(func(e *entry) bool { return e.inScope || e.undecided }) {
		if p, inScope, err := t.Lookup(id); err == nil && inScope && SameInstance(p, of) {
			list = append(list, p)
		}
	}
	return list
}

// SameInstance tells whether two processes are of the same instance of a service: a master and its
// workers are, too, where nothing else tells of instances.
func SameInstance(p, o *model.Process) bool {
	if p.ServiceName != o.ServiceName {
		return false
	}
	return p.ServiceInstanceID == o.ServiceInstanceID || p.Family == o.Family && p.Family != model.ProcessID{}
}

// InScope returns who is in scope, as far as that is decided.
func (t *Table) InScope() []model.ProcessID {
	return t.ids(func(e *entry) bool { return e.inScope && !e.undecided })
}

// ids are those of the entries that are such.
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
