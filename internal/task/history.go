// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// keep is how long a task is remembered after its end.
	keep = 48 * time.Hour
	// maxRecords bounds the tasks that are remembered. One has some 600 bytes, or 30 KiB if it
	// names as many processes and causes as a record may and as many policies requested it.
	maxRecords = 1024
	// maxRecordBytes bounds what is read of one from disk.
	maxRecordBytes = 128 << 10
)

// Store keeps the history over a restart. Its methods are called from one goroutine at a
// time.
type Store interface {
	// Load returns the value of each key, nil where there is none.
	Load(ctx context.Context, keys []string) ([][]byte, error)
	// Save writes values; nil removes one.
	Save(ctx context.Context, values map[string][]byte) error
}

// noSlot is the slot of a task that is not remembered.
const noSlot = -1

// history is the tasks that have started or waited in vain: slots, each of which is a key of the
// store.
type history struct {
	slots []*Record
	dirty map[int]bool
}

func newHistory() history { return history{slots: make([]*Record, maxRecords), dirty: map[int]bool{}} }

// add gives a task a slot: a free one, else that of the oldest that never ran, else that of the
// oldest that has ended, which none takes that never ran itself. There are fewer that run than slots.
func (h *history) add(r Record) int {
	slot, most := noSlot, min(r.worth(), hasRun)
	for i, other := range h.slots {
		if other == nil {
			slot = i
			break
		}
		switch worth := other.worth(); {
		case worth > most:
		case slot == noSlot, worth < most, other.Asked.Before(h.slots[slot].Asked):
			slot, most = i, worth
		}
	}
	if slot != noSlot {
		h.set(slot, r)
	}
	return slot
}

// worth says what is forgotten first.
type worth int

const (
	neverRan worth = iota
	hasRun
	runs
)

func (r *Record) worth() worth {
	switch _, ended := r.Ended(); {
	case !ended:
		return runs
	case r.Began().IsZero():
		return neverRan
	}
	return hasRun
}

func (h *history) set(slot int, r Record) {
	h.slots[slot] = &r
	h.dirty[slot] = true
}

func (h *history) drop(slot int) {
	h.slots[slot] = nil
	h.dirty[slot] = true
}

// forget drops what has ended too long ago.
func (h *history) forget(now time.Time) {
	for slot, r := range h.slots {
		if r == nil {
			continue
		}
		if at, ended := r.Ended(); ended && now.Sub(at) > keep {
			h.drop(slot)
		}
	}
}

// records are those that are kept, oldest first.
func (h *history) records(now time.Time) []Record {
	h.forget(now)
	var list []Record
	for _, r := range h.slots {
		if r != nil {
			list = append(list, *r)
		}
	}
	slices.SortStableFunc(list, func(a, b Record) int { return a.Asked.Compare(b.Asked) })
	return list
}

// changes are the values to be saved since the last call.
func (h *history) changes() (values map[string][]byte, slots []int, err error) {
	values = make(map[string][]byte, len(h.dirty))
	var errs []error
	for slot := range h.dirty {
		var value []byte
		if r := h.slots[slot]; r != nil {
			var err error
			if value, err = json.Marshal(r); err != nil {
				errs = append(errs, fmt.Errorf("encoding task %s: %w", r.ID, err))
				continue
			}
		}
		values[key(slot)] = value
		slots = append(slots, slot)
	}
	clear(h.dirty)
	return values, slots, errors.Join(errs...)
}

// unsaved notes that values could not be saved.
func (h *history) unsaved(slots []int) {
	for _, slot := range slots {
		h.dirty[slot] = true
	}
}

func key(slot int) string { return fmt.Sprintf("task/%d", slot) }

// load takes over what an earlier Collector has kept. What cannot be read is left out.
func (h *history) load(ctx context.Context, store Store, now time.Time) error {
	keys := make([]string, len(h.slots))
	for slot := range keys {
		keys[slot] = key(slot)
	}
	values, err := store.Load(ctx, keys)
	if err != nil {
		return fmt.Errorf("reading the history of tasks: %w", err)
	}
	var errs []error
	for slot, value := range values[:min(len(values), len(h.slots))] {
		if value == nil {
			continue
		}
		r, err := decode(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading %s of the history of tasks: %w", keys[slot], err))
			continue
		}
		if r.interrupt(now) {
			h.dirty[slot] = true
		}
		h.slots[slot] = &r
	}
	h.forget(now)
	return errors.Join(errs...)
}

// decode reads a record, within bounds.
func decode(value []byte) (Record, error) {
	var r Record
	if len(value) > maxRecordBytes {
		return r, fmt.Errorf("it has %d bytes, more than %d", len(value), maxRecordBytes)
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return r, err
	}
	if r.ID == "" || len(r.Runs) == 0 {
		return r, errors.New("it is no task")
	}
	return r, nil
}

// interrupt ends what ran or waited when the Collector ended; false where nothing did.
func (r *Record) interrupt(now time.Time) bool {
	any := false
	for i := range r.Runs {
		if run := &r.Runs[i]; run.State != Ended {
			run.State, run.Reason, any = Ended, Interrupted, true
			if run.End.IsZero() || run.End.After(now) {
				run.End = now
			}
		}
	}
	return any
}
