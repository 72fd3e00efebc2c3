// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"slices"
)

const (
	// spaceHeadBytes and mappingBytes are the sizes of struct unwind_space and
	// unwind_mapping.
	spaceHeadBytes, mappingBytes = 8, 24
	// maxMappings is one less than UNWIND_SPACE_MAPPINGS.
	maxMappings = 2047
	// userEnd is where addresses of user space end, with 5-level tables too.
	userEnd = 1 << 56
)

// Mapping is where a process has mapped a binary's code.
type Mapping struct {
	Start, End uint64
	// Bias is what is added to an address in the binary to get that in the process.
	Bias uint64
	// Binary has been acquired for this mapping; nil if there is none.
	Binary *Binary
	// Kind is how code without a binary is unwound.
	Kind Kind
}

// Kind is enum unwind_kind of unwind.h.
type Kind uint16

// KindCompiled is code that was compiled at run time: it is unwound by frame
// pointers.
const KindCompiled Kind = 1

// Space is a process's list of mappings.
type Space struct {
	extent   extent
	binaries []*Binary
	// Skipped counts mappings that did not fit into the list.
	Skipped int
}

// Handle is the space's reference for BPF programs: struct scope_entry's field space. 0, that of nil, is no space.
func (p *Space) Handle() uint32 {
	if p == nil {
		return 0
	}
	return uint32(p.extent.chunk)<<16 | p.extent.offset/align
}

// NewSpace writes a list. It takes over the mappings' binaries and releases them with the space, or when there is an error.
func (s *Store) NewSpace(mappings []Mapping) (*Space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Space{}
	list := make([]byte, spaceHeadBytes, spaceHeadBytes+mappingBytes*len(mappings))
	slices.SortFunc(mappings, func(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) })
	count, end := 0, uint64(0)
	add := func(from, to, base uint64, chunk, first uint16) {
		if count == maxMappings {
			p.Skipped++
			return
		}
		count++
		list = native.AppendUint64(list, from)
		list = native.AppendUint64(list, base)
		list = native.AppendUint32(list, uint32(min(to-from, 1<<32-1)))
		list = native.AppendUint16(list, chunk)
		list = native.AppendUint16(list, first)
	}
	for _, m := range mappings {
		if m.Binary != nil {
			p.binaries = append(p.binaries, m.Binary)
		}
		if m.Start < end || m.End <= m.Start || m.End > userEnd {
			continue // overlaps cannot happen
		}
		end = m.End
		if m.Binary == nil {
			add(m.Start, m.End, m.Start, 0, uint16(m.Kind))
			continue
		}
		for _, segment := range m.Binary.segments {
			from, to := max(m.Start, segment.start+m.Bias), min(m.End, segment.end+m.Bias)
			if from < to {
				add(from, to, segment.start+m.Bias, segment.directory.chunk, uint16(segment.directory.offset/pageBytes))
			}
		}
	}
	s.serial = max(s.serial+1, 1)
	native.PutUint32(list, uint32(count))
	native.PutUint32(list[4:], s.serial)
	var err error
	if p.extent, err = s.alloc(uint32(len(list))); err != nil {
		s.releaseAll(p)
		return nil, err
	}
	copy(s.heap.at(p.extent), list)
	return p, nil
}

// Free frees a space that BPF programs cannot find any more.
func (s *Store) Free(p *Space) {
	if p == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(p.extent)
	s.releaseAll(p)
}

func (s *Store) releaseAll(p *Space) {
	for _, b := range p.binaries {
		s.release(b)
	}
	p.binaries = nil
}
