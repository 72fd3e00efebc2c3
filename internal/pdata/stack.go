// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"math/bits"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// stackIndex finds stacks by their location indices. Stacks with the same hash
// are chained and compared whole, so that no two are taken for one.
type stackIndex struct {
	heads map[uint64]int32
	// entries has the index that the stack has in the stack table.
	entries []stackEntry
	// arena has the location indices of all stacks, one after the other.
	arena []int32
}

// stackEntry is a stack: its part of the arena, and the next one that has the
// same hash, or 0.
type stackEntry struct {
	start, end int
	next       int32
}

func makeStackIndex() stackIndex {
	return stackIndex{heads: map[uint64]int32{}}
}

// begin adds the zero value, the empty stack.
func (s *stackIndex) begin() {
	s.entries = append(s.entries, stackEntry{})
}

func (s *stackIndex) end() {
	clear(s.heads)
	s.entries = s.entries[:0]
	s.arena = s.arena[:0]
}

// find returns the index of the stack with these locations, and whether it is
// a new one.
func (s *stackIndex) find(locations []int32, hash uint64) (index int32, added bool) {
	head := s.heads[hash]
	for i := head; i != 0; i = s.entries[i].next {
		e := s.entries[i]
		if slices.Equal(s.arena[e.start:e.end], locations) {
			return i, false
		}
	}
	index = int32(len(s.entries))
	start := len(s.arena)
	s.arena = append(s.arena, locations...)
	s.entries = append(s.entries, stackEntry{start: start, end: len(s.arena), next: head})
	s.heads[hash] = index
	return index, true
}

// stack returns the index of a stack, leaf first, in the stack table; 0 for
// one without frames.
func (d *dictionary) stack(frames []*model.Frame) int32 {
	if len(frames) == 0 {
		return 0
	}
	d.indices = d.indices[:0]
	hash := uint64(len(frames))
	for _, f := range frames {
		i := d.location(f)
		d.indices = append(d.indices, i)
		hash = mix(hash, uint64(i))
	}
	index, added := d.stacks.find(d.indices, hash)
	if added {
		d.out.StackTable().AppendEmpty().LocationIndices().FromRaw(d.indices)
		d.size += sizeHeader + sizePacked(d.indices)
	}
	return index
}

// mix is one step of a hash that need not withstand an adversary: what it
// finds is always compared.
func mix(hash, v uint64) uint64 {
	return (bits.RotateLeft64(hash, 23) ^ v) * 0x9e3779b97f4a7c15
}
