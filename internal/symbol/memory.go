// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"container/heap"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// maxIdle bounds the binaries that are kept though no process runs them.
const maxIdle = 4096

// held is what counts against the memory bound.
func (s *Symbolizer) held() int64 {
	return s.tableBytes + s.reserved + s.frameBytes + s.otherBytes() + s.lines.bytesHeld() + int64(s.names.waiting())*wantedBytes
}

func (s *Symbolizer) otherBytes() int64 {
	return int64(len(s.binaries)+s.views.All())*recordBytes + int64(s.decisions.All())*decisionBytes + s.regionBytes + s.jitted.held() + s.pages.Bytes() + s.found.bytes() + s.contents.bytes() + s.kernel.names.Bytes()
}

// makeRoom evicts until need more bytes fit: frames that were not used for long when they are the greater part, then the least recently used
// tables, then any frames, then binaries that no process runs. Tables of the binary being named stay. The memory of open address spaces
// cannot be evicted.
func (s *Symbolizer) makeRoom(need int64, working *binary) {
	rotations := 0
	rotate := func() {
		rotations++
		s.rotateFrames()
	}
	for s.held()+need > s.memory {
		switch {
		case s.frameBytes > s.memory/2 && rotations < 2:
			rotate()
		case s.evictTable(working):
		case rotations < 2:
			rotate()
		case s.evictIdle():
		default:
			s.lines.giveWay()
			return
		}
	}
}

const (
	// tablesShare is the part of the memory, in eighths, that tables may take together, and tableShare that of one. Tables that do not fit
	// are looked up in passes over their files.
	tablesShare, tableShare = 6, 3
	// idleTable is after what time an unused table is evicted for any other, and smallerBy how many times smaller another must be to evict a
	// table in use. A large one then cannot evict it in turn: it is partial from then on.
	idleTable = 30 * time.Second
	smallerBy = 4
)

// roomFor frees memory for a table of one binary, by evicting tables that are unused or much larger.
func (s *Symbolizer) roomFor(b *binary, need int64) error {
	if need > s.memory*tableShare/8 {
		return elfsym.ErrNoRoom
	}
	var victims victims
	listed, rotated := false, false
	for s.tableBytes+s.reserved+need > s.memory*tablesShare/8 || s.held()+need > s.memory {
		if !listed {
			victims, listed = s.victimsOf(b, need), true
		}
		switch {
		case len(victims) > 0:
			s.dropTables(heap.Pop(&victims).(victim).binary)
		case !rotated && s.held()+need > s.memory:
			rotated = true
			s.rotateFrames()
		default:
			return elfsym.ErrNoRoom
		}
	}
	return nil
}

// rotateFrames ages all frames by one generation.
func (s *Symbolizer) rotateFrames() {
	for b := range s.all {
		before := b.frames.bytes()
		s.count.framesEvicted += uint64(b.frames.rotate())
		s.frameBytes += b.frames.bytes() - before
	}
}

// resetFrames drops the frames of one binary.
func (s *Symbolizer) resetFrames(b *binary) {
	s.frameBytes -= b.frames.bytes()
	b.frames.reset()
}

// evictTable drops the least recently used tables, or spans of compiled code.
func (s *Symbolizer) evictTable(working *binary) bool {
	var oldest *binary
	for b := range s.all {
		if b != working && b.tableBytes() > 0 && (oldest == nil || b.used < oldest.used) {
			oldest = b
		}
	}
	code := s.oldestCode()
	switch {
	case code != nil && (oldest == nil || code.Used < oldest.used):
		s.evictCode(code)
		return true
	case oldest == nil:
		return false
	}
	s.dropTables(oldest)
	return true
}

// evictIdle drops the binary that has been without a process for longest.
func (s *Symbolizer) evictIdle() bool {
	for e := s.idle.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*binary); !b.pinned {
			s.forget(b)
			return true
		}
	}
	return false
}

// forget removes a binary with all that is known of it.
func (s *Symbolizer) forget(b *binary) {
	if b.tableBytes() > 0 {
		s.dropTables(b)
	}
	s.resetFrames(b)
	s.closeFile(b)
	s.lines.leave(b)
	s.dropViews(b)
	s.pages.Forget(b.serial)
	for _, key := range append(b.aliases, b.key) {
		if s.binaries[key] == b {
			delete(s.binaries, key)
		}
	}
	if s.byContent[b.contentAt()] == b {
		delete(s.byContent, b.contentAt())
	}
	s.notIdle(b)
	delete(s.all, b)
}
