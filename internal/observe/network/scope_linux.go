// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// held are the states of sockets that a process has open; sockets that it has closed outlive it in other states.
var held = []int{0, 1, 8, 10} // none, established, close_wait, listen

// leaveOut removes the series of processes that have left the scope. What they have counted since the last report is not exported.
func (t *table) leaveOut() error {
	stay, left := map[observe.SubjectKey]bool{}, map[*owner]bool{}
	for id, s := range t.live {
		if s.flow == nil || s.process == nil {
			continue
		}
		subject := s.subject()
		stays, known := stay[subject]
		if !known {
			var err error
			if stays, known, err = t.stays(subject, holds(&t.slots.items[id])); err != nil {
				return err
			}
		}
		if known {
			stay[subject] = stays
		}
		if !stays {
			t.leave(s)
			left[s.owner] = true
			s.process, s.owner, s.flow, s.idle = nil, nil, nil, idleFlows
		}
	}
	for o := range left {
		for _, f := range o.flows {
			if len(f.members) == 0 {
				t.end(o, f)
			}
		}
	}
	return nil
}

func holds(at *slot) bool {
	return slices.ContainsFunc(held, func(state int) bool { return at.Open[state] > 0 })
}

// stays reports whether a process is still in scope, and whether that is known: a process without an entry in the kernel may have exited,
// unless it is known to run.
func (t *table) stays(subject observe.SubjectKey, runs bool) (stays, known bool, err error) {
	const decided = uint32(bindings.ProcessScopeBitSCOPE_DECIDED)
	var entry bindings.ProcessScopeEntry
	if err := t.scopes.Lookup(&subject.PID, &entry); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, false, fmt.Errorf("reading the processes in scope: %w", err)
	}
	switch {
	case entry.Bits&decided == 0 && !runs:
		return true, false, nil
	case entry.Bits&decided != 0 && entry.Bits&t.scopeBit != 0:
		return true, true, nil
	}
	found, _ := t.host.Subject(subject, "")
	return found != nil, true, nil
}

// staysQuiet reports whether a process of which it is not known that it runs is still in scope, and whether that is known.
func (t *table) staysQuiet(subject observe.SubjectKey) (stays, known bool, err error) {
	return t.stays(subject, false)
}
