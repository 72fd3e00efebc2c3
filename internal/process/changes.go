// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// ChangeKind says how the scope changed.
type ChangeKind uint8

// Kinds of [Change].
const (
	// Removed: the process ended or went out of scope.
	Removed ChangeKind = iota + 1
	// Added: the process came into scope.
	Added
	// Described: the process, in scope before and after, listens on other ports, or has another
	// comm or other arguments, so that selectors may match it that did not, or no more.
	Described
	// Executed: the process, in scope before and after, runs another program.
	Executed
)

// Change is a decision about one process. Of several decisions that follow
// each other only the outcome is told: a process that came and went is not
// mentioned. Within one call, what is Removed comes first, so that the order
// holds for a pid that is used again.
type Change struct {
	ID   model.ProcessID
	Kind ChangeKind
}

// changes are the decisions that were not told yet. There are never more than
// running processes and such as were told to be in scope.
type changes struct {
	untold  map[model.ProcessID]ChangeKind
	telling bool
	peak    int // most elements that untold had
}

// unchanged says that there is no news of a process that stays in scope.
const unchanged ChangeKind = 0

// decided notes the state of an entry, with the news of it if it stays in scope.
func (c *changes) decided(e *entry, news ChangeKind) {
	if before := c.untold[e.id]; before == Described || before == Executed {
		news = max(news, before)
	}
	switch {
	case e.inScope && !e.told:
		c.set(e.id, Added)
	case !e.inScope && e.told:
		c.set(e.id, Removed)
	case e.inScope && news != unchanged:
		c.set(e.id, news)
	default:
		delete(c.untold, e.id)
	}
}

// removed notes that an entry is no more.
func (c *changes) removed(e *entry) {
	if e.told {
		c.set(e.id, Removed)
	} else {
		delete(c.untold, e.id)
	}
}

func (c *changes) set(id model.ProcessID, kind ChangeKind) {
	if c.untold == nil {
		c.untold = map[model.ProcessID]ChangeKind{}
	}
	c.untold[id] = kind
	c.peak = max(c.peak, len(c.untold))
}

// tell calls OnChange until there is nothing more to tell. It is called
// without any lock held; when somebody else is at it, they tell this, too.
func (t *Table) tell() {
	t.mu.Lock()
	if t.changes.telling || len(t.changes.untold) == 0 {
		t.mu.Unlock()
		return
	}
	t.changes.telling = true
	for len(t.changes.untold) > 0 {
		batch := t.takeChanges()
		t.mu.Unlock()
		t.cfg.OnChange(batch)
		t.mu.Lock()
	}
	t.changes.telling = false
	t.mu.Unlock()
}

// takeChanges empties what is untold, the removed first.
func (t *Table) takeChanges() []Change {
	batch := make([]Change, 0, len(t.changes.untold))
	for id, kind := range t.changes.untold {
		if kind == Removed {
			batch = append(batch, Change{ID: id, Kind: kind})
		}
	}
	for id, kind := range t.changes.untold {
		if kind != Removed {
			batch = append(batch, Change{ID: id, Kind: kind})
		}
		if e := t.get(id); e != nil {
			e.told = kind != Removed
		}
	}
	clear(t.changes.untold)
	return batch
}
