// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// watch holds the processes whose exit matters, behind a lock of its own: the caller that reports
// an exit must not wait for another one that starts a run.
type watch struct {
	mu   sync.Mutex
	of   map[model.ProcessID]int // how many runs observe a process
	gone map[model.ProcessID]bool
}

func newWatch() watch {
	return watch{of: map[model.ProcessID]int{}, gone: map[model.ProcessID]bool{}}
}

func (w *watch) add(processes []*model.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range processes {
		w.of[p.ID]++
	}
}

func (w *watch) remove(processes []*model.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range processes {
		if w.of[p.ID]--; w.of[p.ID] <= 0 {
			delete(w.of, p.ID)
			delete(w.gone, p.ID)
		}
	}
}

// exited notes an exit, and reports whether it matters.
func (w *watch) exited(id model.ProcessID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[id] == 0 {
		return false
	}
	w.gone[id] = true
	return true
}

// take returns who has ended since the last call.
func (w *watch) take() map[model.ProcessID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gone) == 0 {
		return nil
	}
	gone := w.gone
	w.gone = map[model.ProcessID]bool{}
	return gone
}
