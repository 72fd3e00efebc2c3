// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package functions

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// maxPutOff bounds the processes that are remembered to be looked at again when there is capacity.
const maxPutOff = 65536

// limits bound the processes that are attached to at once, and those that are looked into: most
// have none of the functions, but may map them later.
type limits struct{ attached, known int }

var most = limits{attached: 1024, known: 4096}

// offer makes as many of the postponed processes due as there is capacity for, and reports whether there are any.
func (a *Attacher[F]) offer() (offered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range []struct {
		list map[uint32]struct{}
		room int
	}{{a.refused, a.limits.attached - a.held}, {a.crowded, a.limits.known - len(a.known)}} {
		for pid := range of.list {
			if of.room--; of.room < 0 {
				break
			}
			delete(of.list, pid)
			a.due[pid] = struct{}{}
			offered = true
		}
	}
	return offered
}

// putOff remembers a process to be looked at again, unless there are too many.
func putOff(list map[uint32]struct{}, pid uint32) {
	if len(list) < maxPutOff {
		list[pid] = struct{}{}
	}
}

// meet begins to look into a process. If the capacity is exhausted, one is evicted that is not attached to.
func (a *Attacher[F]) meet(id model.ProcessID) *target[F] {
	delete(a.crowded, id.PID)
	if len(a.known) >= a.limits.known {
		for pid, t := range a.known {
			if !t.holds {
				a.leave(pid)
				putOff(a.crowded, pid)
				a.lose(fmt.Errorf("process %d: %d are looked into, which is the most: what it maps later is not seen: narrow %s", pid, a.limits.known, a.config.Targets))
				break
			}
		}
	}
	if a.config.Met != nil {
		if err := a.config.Met(id); err != nil {
			a.lose(fmt.Errorf("process %d comes into scope: %w", id.PID, err))
		}
	}
	t := &target[F]{id: id, files: map[symbol.FileKey]file[F]{}}
	a.known[id.PID] = t
	return t
}

// mayHold reports whether a process may be attached to, and remembers it if the capacity is exhausted.
func (a *Attacher[F]) mayHold(t *target[F]) bool {
	if t.holds || a.held < a.limits.attached {
		t.refused = false
		return true
	}
	if !t.refused {
		a.lose(fmt.Errorf("process %d: %d are attached to, which is the most: narrow %s", t.id.PID, a.limits.attached, a.config.Targets))
	}
	t.refused = true
	putOff(a.refused, t.id.PID)
	return false
}

// hold notes whether a process is attached to.
func (a *Attacher[F]) hold(t *target[F]) {
	before := t.holds
	t.holds = false
	for _, file := range t.files {
		t.holds = t.holds || file.to != nil && len(file.to.probes) > 0
	}
	switch {
	case t.holds && !before:
		a.held++
	case before && !t.holds:
		a.held--
	}
}
