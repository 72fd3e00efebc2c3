// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxWaiting bounds the queue of decisions, and maxSettle what one call of
// Settle reads: at 50 µs for each that is 6 ms.
const (
	maxWaiting = 16384
	maxSettle  = 128
)

// waiting is a process whose decision is due.
type waiting struct {
	id    model.ProcessID
	since time.Time
}

// postpone defers a decision until the process has run a little longer.
func (t *Table) postpone(e *entry) {
	if e.undecided {
		return
	}
	e.undecided = true
	if len(t.waiting) >= maxWaiting {
		t.stats.Deferred++ // the next scan decides
		return
	}
	t.waiting = append(t.waiting, waiting{id: e.id, since: t.cfg.Now()})
}

// Settle decides about the processes that have run for SettleDelay since their exec, a bounded number at a time. Those that exited before
// cost nothing. Errors of single processes are counted in [Stats].
func (t *Table) Settle(ctx context.Context) error {
	defer t.notify()
	for _, id := range t.due() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := t.evaluate(id); err != nil && !errors.Is(err, ErrGone) {
			t.cfg.Logger.Debug("deciding about a process", zap.Uint32("pid", id.PID), zap.Error(err))
		}
	}
	return nil
}

// due takes what has waited long enough out of the queue.
func (t *Table) due() []model.ProcessID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []model.ProcessID
	limit := t.cfg.Now().Add(-t.cfg.SettleDelay)
	n := 0
	for _, w := range t.waiting {
		if len(ids) == maxSettle || w.since.After(limit) {
			break
		}
		if e := t.get(w.id); e != nil && e.undecided {
			ids = append(ids, w.id)
		}
		n++
	}
	if t.waiting = t.waiting[n:]; len(t.waiting) == 0 {
		t.waiting = nil
	}
	return ids
}
