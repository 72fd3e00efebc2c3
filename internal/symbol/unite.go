// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// The functions below are called with the mutex of the symbolizer held.

// share has a binary, whose sum is known now, serve all files of its content, or unites it with the one that does.
func (s *Symbolizer) share(b *binary) {
	spaces := b.spaces
	b.spaces = nil
	if !b.sharable || b.cause != reason.Named || s.closed {
		return
	}
	at := b.contentAt()
	twin := s.byContent[at]
	switch {
	case twin == nil:
		s.byContent[at] = b
		return
	case twin == b, len(twin.aliases) >= maxAliases, s.binaries[b.key] != b:
		return
	}
	s.binaries[b.key] = twin
	twin.aliases = append(twin.aliases, b.key)
	b.united = twin
	for a := range spaces {
		a.reunite()
	}
}

// unite replaces, in regions that no process has yet, binaries that were found to be the same as others meanwhile. Existing unwind tables
// stay those of the region.
func (s *Symbolizer) unite(regions []region) {
	page := uint64(os.Getpagesize())
	for i := range regions {
		r := &regions[i]
		old, twin := r.bin, r.bin.united
		if twin == nil {
			continue
		}
		if _, known := s.all[twin]; !known {
			continue
		}
		known := r.known
		if known == "" {
			known = old.known
		}
		*r = place(r.mapEntry, twin, page)
		r.known = known
		s.ref(twin)
		s.unref(old)
	}
}

// reunite has a process use the binaries that its own were found to be the same as. The regions are new ones: waiting frames refer to the old
// ones.
func (a *AddressSpace) reunite() {
	if a.closed {
		return
	}
	regions := slices.Clone(a.regions)
	for i := range regions {
		a.s.ref(regions[i].bin)
	}
	read := a.read
	a.install(regions)
	a.read = read
}

// follow records which binaries without a sum a process has mapped now, and had before.
func (a *AddressSpace) follow(old []region) {
	for i := range old {
		delete(old[i].bin.spaces, a)
	}
	for i := range a.regions {
		b := a.regions[i].bin
		if !b.unsummed {
			continue
		}
		if b.spaces == nil {
			b.spaces = map[*AddressSpace]struct{}{}
		}
		b.spaces[a] = struct{}{}
	}
}
