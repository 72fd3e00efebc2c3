// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// ChangeKind is how the scope changed.
type ChangeKind uint8

// Kinds of [Change].
const (
	// Removed: the process exited or went out of scope.
	Removed ChangeKind = iota + 1
	// Added: the process came into scope.
	Added
	// Described: the process was in scope before and after, but its ports, comm or arguments changed. Other selectors may match it now.
	Described
	// Executed: the process, in scope before and after, runs another program.
	Executed
)

// Change is a decision about one process. Of several successive decisions only the outcome is reported: a process that was added and removed
// in between is not mentioned. Within one call, Removed changes come first, so that the order is right for a pid that is reused.
type Change struct {
	ID   model.ProcessID
	Kind ChangeKind
}

// changes are the decisions that were not reported yet. There are never more than running processes plus processes that were reported as in
// scope.
type changes struct {
	pending   map[model.ProcessID]ChangeKind
	notifying bool
	peak      int // the greatest length of pending
}

// unchanged: a process that stays in scope has not changed.
const unchanged ChangeKind = 0

// decided records the state of an entry, with its change if it stays in scope.
func (c *changes) decided(e *entry, news ChangeKind) {
	if before := c.pending[e.id]; before == Described || before == Executed {
		news = max(news, before)
	}
	switch {
	case e.inScope && !e.notified:
		c.set(e.id, Added)
	case !e.inScope && e.notified:
		c.set(e.id, Removed)
	case e.inScope && news != unchanged:
		c.set(e.id, news)
	default:
		delete(c.pending, e.id)
	}
}

// removed records that an entry was removed.
func (c *changes) removed(e *entry) {
	if e.notified {
		c.set(e.id, Removed)
	} else {
		delete(c.pending, e.id)
	}
}

func (c *changes) set(id model.ProcessID, kind ChangeKind) {
	if c.pending == nil {
		c.pending = map[model.ProcessID]ChangeKind{}
	}
	c.pending[id] = kind
	c.peak = max(c.peak, len(c.pending))
}

// notify calls OnChange until no change is pending. It is called without any lock held. While another goroutine is in notify, that one
// reports these changes, too.
func (t *Table) notify() {
	t.mu.Lock()
	if t.changes.notifying || len(t.changes.pending) == 0 {
		t.mu.Unlock()
		return
	}
	t.changes.notifying = true
	for len(t.changes.pending) > 0 {
		batch := t.takeChanges()
		t.mu.Unlock()
		t.cfg.OnChange(batch)
		t.mu.Lock()
	}
	t.changes.notifying = false
	t.mu.Unlock()
}

// takeChanges returns and clears the pending changes, Removed first.
func (t *Table) takeChanges() []Change {
	batch := make([]Change, 0, len(t.changes.pending))
	for id, kind := range t.changes.pending {
		if kind == Removed {
			batch = append(batch, Change{ID: id, Kind: kind})
		}
	}
	for id, kind := range t.changes.pending {
		if kind != Removed {
			batch = append(batch, Change{ID: id, Kind: kind})
		}
		if e := t.get(id); e != nil {
			e.notified = kind != Removed
		}
	}
	clear(t.changes.pending)
	return batch
}
