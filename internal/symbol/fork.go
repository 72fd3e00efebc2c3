// SPDX-License-Identifier: Apache-2.0

package symbol

import "github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"

// Fork returns the address space of a process that was forked from this one and has exited: its memory map is the current one of this
// process, and does not change. Its files are read through this process. The error is that this address space is closed.
func (a *AddressSpace) Fork() (*AddressSpace, error) {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.closed || s.closed {
		return nil, errClosed
	}
	child := &AddressSpace{s: s, id: a.id, frozen: true}
	child.nowhere.bin = nameless("", reason.ProcessExited)
	for i := range a.regions {
		s.ref(a.regions[i].bin)
	}
	child.install(append([]region(nil), a.regions...))
	s.all[child.nowhere.bin] = struct{}{}
	s.spaces++
	s.regionBytes += recordBytes
	return child, nil
}
