// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

// mapsRead charges a user for having a map read.
func (s *Symbolizer) mapsRead(user budget.Account, spent time.Duration) {
	if s.maps.Spend(user, s.now(), spent) {
		s.warnMaps(user)
	}
}

// mapsWait is how long a deferrable reading of a user's map must wait.
func (s *Symbolizer) mapsWait(user budget.Account) time.Duration {
	wait, over := s.maps.Wait(user, s.now())
	if over {
		s.warnMaps(user)
	}
	return wait
}

func (s *Symbolizer) warnMaps(user budget.Account) {
	s.warnings.Warn(fmt.Errorf("programs of %s map new files, or map code, so often that reading it takes more than its part of "+
		"limits::cpu_percent: what they map is read later", user))
}

// ReadMapsUntil bounds the time, on the clock, that memory maps are read for: a deadline of what is being drained, or the zero time. After it,
// readings leave out the files that follow and are to be repeated ([AddressSpace.Incomplete]), and the mapping of an address that is not
// known is not searched for. On a host with overloaded CPUs reading a map takes many times its CPU time.
func (s *Symbolizer) ReadMapsUntil(deadline time.Time) {
	if deadline.IsZero() {
		s.mapsUntil.Store(0)
		return
	}
	s.mapsUntil.Store(deadline.UnixNano())
}

// late reports whether memory maps have been read for too long.
func (s *Symbolizer) late() bool {
	until := s.mapsUntil.Load()
	return until != 0 && s.now().UnixNano() > until
}

// TablesOver reports whether the user of the process has spent its part of the CPU time on unwind tables of small binaries.
func (a *AddressSpace) TablesOver() bool {
	wait, _ := a.s.tables.Wait(a.pace.LastUser(), a.s.now())
	return wait > 0
}

// ChargeTable makes an unwind table and charges the process's user with it.
func (a *AddressSpace) ChargeTable(work func()) {
	spent := budget.CPUTimeOf(work)
	user := a.pace.LastUser()
	if a.s.tables.Spend(user, a.s.now(), spent) {
		a.s.warnings.Warn(fmt.Errorf("programs of %s run so many binaries that are new that making their unwind tables takes more than its part "+
			"of limits::cpu_percent: until they are made, stacks of these programs are unwound by frame pointers", user))
	}
}
