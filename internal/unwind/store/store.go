// SPDX-License-Identifier: Apache-2.0

package store

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

const (
	rowBytes  = 4
	pageBytes = 8
	// segmentPages is how many entries of a directory fit into a chunk.
	segmentPages = chunkBytes / pageBytes
	pageSize     = unwind.PageBytes
	// waitsMax is how much memory may wait for its last reader.
	waitsMax = 1 << 20
)

var native = binary.NativeEndian

// memory is what BPF programs read.
type memory struct {
	// grow makes a chunk that they find under its id.
	grow func(id uint16) ([]byte, error)
	// rules has capacity for maxRules.
	rules []byte
	// settle returns when no program reads what was unlinked before.
	settle func() error
}

// Stats are the sizes and counts of a store. Counts are since the start.
type Stats struct {
	// Bytes is the memory of the kernel's maps, TableBytes the part of it that tables and lists use.
	Bytes, TableBytes uint64
	// Binaries have a table, Rules are shared by all of them.
	Binaries, Rules int
	// Built and Evicted count tables, Full those that did not fit, and Found those that existed when they were acquired.
	Built, Evicted, Full, Found uint64
	// RulesFull counts the rules that did not fit; their code has no rule.
	RulesFull uint64
	// RulesFill is the used fraction of the capacity for rules, from 0 to 1.
	RulesFill float64
}

// Store holds the tables of binaries and the lists of mappings of processes. Its methods are safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	memory   memory
	heap     *heap
	rules    rules
	binaries map[string]*Binary
	idle     *list.List // of *Binary that no list leads to, the longest idle first
	waiting  []extent   // unlinked, perhaps still read
	waits    uint32     // bytes of these
	serial   uint32     // of the last list that was written
	stats    Stats
}

// Binary is the table of one binary. The zero table, of a binary that has none,
// takes no memory.
type Binary struct {
	key      string
	segments []segment
	rows     []extent
	rules    []uint16 // slots
	unruled  int
	users    int
	idle     *list.Element
}

// segment is a part of a binary's directory.
type segment struct {
	start, end uint64 // of the text that it covers
	directory  extent
}

// Unruled is how many of the table's rules did not fit in addition to those of other tables: their code has no rule.
func (b *Binary) Unruled() int { return b.unruled }

func newStore(m memory, maxChunks int) *Store {
	return &Store{
		memory: m, heap: newHeap(maxChunks, m.grow), rules: newRules(m.rules),
		binaries: map[string]*Binary{}, idle: list.New(),
	}
}

// Acquire returns the binary of a key; if it is not stored, build makes its table. nil stands for no table. Until Release it stays. The error
// wraps [ErrFull] or is build's; then there is no binary.
func (s *Store) Acquire(key string, build func() (*unwind.Table, error)) (*Binary, error) {
	if b := s.Known(key); b != nil {
		return b, nil
	}
	table, err := build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.binaries[key]; b != nil { // another goroutine was faster
		s.use(b)
		return b, nil
	}
	b := &Binary{key: key, users: 1}
	if table != nil {
		if err := s.write(b, table); err != nil {
			s.free(b)
			s.stats.Full++
			return nil, err
		}
	}
	s.stats.Built++
	s.binaries[key] = b
	return b, nil
}

// Known is Acquire of a stored binary; nil when it is not stored.
func (s *Store) Known(key string) *Binary {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.binaries[key]
	if b != nil {
		s.stats.Found++
		s.use(b)
	}
	return b
}

func (s *Store) use(b *Binary) {
	b.users++
	if b.idle != nil {
		s.idle.Remove(b.idle)
		b.idle = nil
	}
}

// Release releases what Acquire returned. The table stays until its memory is needed.
func (s *Store) Release(b *Binary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(b)
}

func (s *Store) release(b *Binary) {
	b.users--
	if b.users == 0 {
		b.idle = s.idle.PushBack(b)
	}
}

// free frees a binary's memory; no list leads to it.
func (s *Store) free(b *Binary) {
	for _, e := range b.rows {
		s.unlink(e)
	}
	for _, segment := range b.segments {
		s.unlink(segment.directory)
	}
	s.rules.drop(b.rules)
	b.rows, b.segments, b.rules = nil, nil, nil
}

// unlink releases memory that programs may still read.
func (s *Store) unlink(e extent) {
	s.waiting = append(s.waiting, e)
	s.waits += e.bytes
}

// reclaim frees what was unlinked.
func (s *Store) reclaim() error {
	if len(s.waiting) == 0 && len(s.rules.waiting) == 0 {
		return nil
	}
	if err := s.memory.settle(); err != nil {
		return fmt.Errorf("waiting for the programs that unwind: %w", err)
	}
	for _, e := range s.waiting {
		s.heap.release(e)
	}
	s.waiting, s.waits = nil, 0
	s.rules.settled()
	return nil
}

// alloc allocates memory, and evicts tables for it if necessary.
func (s *Store) alloc(bytes uint32) (extent, error) {
	if s.waits > waitsMax {
		if err := s.reclaim(); err != nil {
			return extent{}, err
		}
	}
	for {
		e, err := s.heap.alloc(bytes)
		if !errors.Is(err, ErrFull) {
			return e, err
		}
		if len(s.waiting) == 0 && !s.evict() {
			return extent{}, ErrFull
		}
		if err := s.reclaim(); err != nil {
			return extent{}, err
		}
	}
}

// evict evicts tables without users, the longest idle first, an eighth of them at a time, since each time costs a wait. It reports whether
// that freed memory.
func (s *Store) evict() bool {
	evicted := false
	for n := s.idle.Len()/8 + 1; (n > 0 || !evicted) && s.idle.Len() > 0; n-- {
		b := s.idle.Remove(s.idle.Front()).(*Binary) //nolint:forcetypeassert // nothing else is put there
		evicted = evicted || len(b.segments) > 0
		delete(s.binaries, b.key)
		s.free(b)
		s.stats.Evicted++
	}
	return evicted
}

// Stats returns sizes and counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Bytes = s.heap.bytes() + uint64(len(s.memory.rules))
	out.TableBytes = s.heap.used
	out.Binaries, out.Rules = len(s.binaries), len(s.rules.index)
	out.RulesFill = float64(len(s.rules.slots)-len(s.rules.unused)) / maxRules
	return out
}
