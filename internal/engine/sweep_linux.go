// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// sweep finds programs that ended without an event, and decisions in the kernel
// that belong to no known process, such as of a thread that was sampled on its
// way out, after its process was forgotten.
func (s *subjects) sweep() error {
	pids := map[uint32]bool{0: true} // the idle task stays
	for _, id := range s.processes() {
		if _, _, err := s.table.Lookup(id); errors.Is(err, process.ErrGone) {
			s.ended(id, func(observe.SubjectKey) bool { return false })
		}
		pids[id.PID] = true
	}
	decided, err := s.tracker.Decided()
	if err != nil {
		return fmt.Errorf("looking for decisions about processes that ended: %w", err)
	}
	for _, pid := range decided {
		if pids[pid] {
			continue
		}
		if _, _, err := s.table.LookupPID(pid); errors.Is(err, process.ErrGone) {
			s.forgetDecision(pid)
		}
	}
	return nil
}

// processes returns the known processes.
func (s *subjects) processes() []model.ProcessID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]model.ProcessID, 0, len(s.byProcess))
	for id := range s.byProcess {
		ids = append(ids, id)
	}
	return ids
}
