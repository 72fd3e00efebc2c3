// SPDX-License-Identifier: Apache-2.0

package symbol

// maxIdle bounds the binaries that are remembered though no process runs them.
const maxIdle = 4096

// held is what counts against the memory bound.
func (s *Symbolizer) held() int64 {
	return s.tableBytes + s.frameBytes + s.otherBytes() + s.lines.bytesHeld()
}

func (s *Symbolizer) otherBytes() int64 {
	return int64(len(s.binaries))*recordBytes + s.regionBytes + s.jitted.held() + s.pages.bytes() + s.found.bytes() + int64(len(s.kernel.images))*256
}

// makeRoom evicts until need more bytes fit: frames that were not used for
// long when they are the greater part, then the tables that were not needed
// for longest, then whatever frames there are, then binaries that nobody runs.
// Tables of the binary at work stay. What open address spaces themselves hold
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

// rotateFrames ages all frames by one generation.
func (s *Symbolizer) rotateFrames() {
	for b := range s.all {
		before := b.frames.bytes()
		s.count.framesEvicted += uint64(b.frames.rotate())
		s.frameBytes += b.frames.bytes() - before
	}
}

// resetFrames forgets the frames of one binary.
func (s *Symbolizer) resetFrames(b *binary) {
	s.frameBytes -= b.frames.bytes()
	b.frames.reset()
}

// evictTable drops the tables, or the spans of compiled code, that were not needed
// for longest.
func (s *Symbolizer) evictTable(working *binary) bool {
	var oldest *binary
	for b := range s.all {
		if b != working && b.tableBytes() > 0 && (oldest == nil || b.used < oldest.used) {
			oldest = b
		}
	}
	code := s.oldestCode()
	switch {
	case code != nil && (oldest == nil || code.used < oldest.used):
		s.evictCode(code)
		return true
	case oldest == nil:
		return false
	}
	s.dropTables(oldest)
	return true
}

// evictIdle forgets the binary that nobody has run for longest.
func (s *Symbolizer) evictIdle() bool {
	var oldest *binary
	for b := range s.all {
		if b.refs == 0 && b.serial != 0 && !b.pinned && (oldest == nil || b.used < oldest.used) {
			oldest = b
		}
	}
	if oldest == nil {
		return false
	}
	s.forget(oldest)
	return true
}

// forget removes a binary with all that is known of it.
func (s *Symbolizer) forget(b *binary) {
	if b.tableBytes() > 0 {
		s.dropTables(b)
	}
	s.resetFrames(b)
	s.closeFile(b) //nolint:errcheck // counted there
	s.lines.leave(b)
	s.pages.forget(b.serial)
	for _, key := range append(b.aliases, b.key) {
		if s.binaries[key] == b {
			delete(s.binaries, key)
		}
	}
	if s.byContent[b.content] == b {
		delete(s.byContent, b.content)
	}
	if b.serial != 0 && b.refs == 0 {
		s.idle--
	}
	delete(s.all, b)
}
