// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Narrowing narrows the scope of a [Table] further, for one kind of observation. Without selectors it matches every process in scope.
type Narrowing struct{ *selectorList }

// Narrow compiles the selectors of a kind of observation. From the next scan on, processes in scope are matched against them. path is their
// key in the configuration, such as observe::on_cpu::targets; the error begins with it.
func (t *Table) Narrow(path string, selectors []Selector) (*Narrowing, error) {
	list, err := compileList(path, selectors)
	if err != nil {
		return nil, err
	}
	n := &Narrowing{list}
	t.ports.watch(list.matchers)
	for {
		before := t.narrowings.Load()
		after := append(slices.Clip(*before), n)
		if t.narrowings.CompareAndSwap(before, &after) {
			return n, nil
		}
	}
}

// Release drops a narrowing that is no longer used.
func (t *Table) Release(n *Narrowing) {
	for {
		before := t.narrowings.Load()
		after := slices.DeleteFunc(slices.Clone(*before), func(o *Narrowing) bool { return o == n })
		if t.narrowings.CompareAndSwap(before, &after) {
			return
		}
	}
}

// Matches reports whether a process in scope is matched by a narrowing.
func (t *Table) Matches(n *Narrowing, p *model.Process) bool {
	if len(n.matchers) == 0 {
		return true
	}
	s := candidate{process: p, service: p.ServiceName}
	t.mu.RLock()
	if e := t.find(p.ID); e != nil {
		s.ports = e.network.ports
	}
	t.mu.RUnlock()
	return n.match(&s)
}

// narrowedBy is the union of all conditions of narrowings.
func (t *Table) narrowedBy() fieldSet {
	var uses fieldSet
	for _, n := range *t.narrowings.Load() {
		uses |= n.uses()
	}
	return uses
}

// openNarrowings returns the narrowings with selectors that never matched, and
// the conditions of these.
func (t *Table) openNarrowings() (open []*Narrowing, uses fieldSet) {
	for _, n := range *t.narrowings.Load() {
		if fields := n.open(); fields != 0 {
			open, uses = append(open, n), uses|fields
		}
	}
	return open, uses
}

// visitNarrowings matches processes in scope against selectors of kinds that never matched. A process that can be read is read for this once
// for each program.
func (s *scanner) visitNarrowings(ctx context.Context) error {
	open, uses := s.table.openNarrowings()
	if len(open) == 0 {
		return nil
	}
	for _, p := range s.inScope() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !p.read && uses&^inStat != 0 {
			v, _ := s.table.evaluate(p.process.ID) //nolint:errcheck // counted where it happens
			if v.process == nil {
				continue
			}
			p.process = v.process
		}
		for _, n := range open {
			s.table.Matches(n, p.process)
		}
	}
	return nil
}

// scoped is a process in scope: as it was read, or as its stat describes it.
type scoped struct {
	process *model.Process
	read    bool
}

func (s *scanner) inScope() []scoped {
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]scoped, 0, len(t.byPID))
	for _, e := range t.byPID {
		switch {
		case !e.inScope:
		case e.process != nil:
			list = append(list, scoped{process: e.process, read: true})
		default:
			list = append(list, scoped{process: &model.Process{ID: e.id, Comm: e.comm, KernelThread: e.kernel}})
		}
	}
	return list
}
