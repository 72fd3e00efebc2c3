// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// jitted is the state of perf maps and jitdumps, of all processes.
type jitted struct {
	files map[*codemap.File]*AddressSpace
	open  int
	bytes int64 // spans
	// withRuntime are the processes with a language runtime, reported the programs that were logged to lack names.
	withRuntime map[*AddressSpace]struct{}
	reported    map[language]struct{}
	window      time.Time
	budget      int64 // bytes that may still be read in this window
	// counted is how much of bytes each file has, reading has those that are being read outside of the lock.
	counted map[*codemap.File]int64
	reading map[*codemap.File]bool
	// awaited counts the frames of all processes whose names may come later.
	awaited int
}

func (c *jitted) held() int64 {
	return c.bytes + int64(len(c.files))*codeFileBytes + int64(c.awaited)*awaitedBytes
}

// adopt takes over a file that was just opened; old is the one that it replaces.
func (s *Symbolizer) adopt(a *AddressSpace, old, f *codemap.File) *codemap.File {
	if old != nil {
		s.abandon(old)
	}
	s.tick++
	f.Used = s.tick
	f.Restart()
	if s.jitted.files == nil {
		s.jitted.files = map[*codemap.File]*AddressSpace{}
	}
	s.jitted.files[f] = a
	s.jitted.open++
	s.limitCode(f)
	return f
}

// abandon drops a file.
func (s *Symbolizer) abandon(f *codemap.File) {
	s.closeCode(f)
	delete(s.jitted.files, f)
	s.countCode(f)
}

func (s *Symbolizer) closeCode(f *codemap.File) {
	if f.Src == nil {
		return
	}
	s.discard(f.Path, f.Src)
	f.Src = nil
	s.jitted.open--
}

// limitCode closes the least recently used files, except one. They are opened again at the next poll.
func (s *Symbolizer) limitCode(but *codemap.File) {
	for s.jitted.open > maxCodeFiles {
		var oldest *codemap.File
		for f := range s.jitted.files {
			if f != but && f.Src != nil && (oldest == nil || f.Used < oldest.Used) {
				oldest = f
			}
		}
		if oldest == nil {
			return
		}
		s.closeCode(oldest)
	}
}

// bound keeps one file's spans within a quarter of the memory. Those that are not in code any more are dropped first, since V8 also lists
// each function's bytecode. If that does not help, the file is read no further.
func (s *Symbolizer) bound(a *AddressSpace, f *codemap.File) {
	limit := s.memory / 4
	if f.Spans.Bytes() <= limit {
		return
	}
	count := f.Spans.Count
	f.Spans.Retain(func(c *codemap.Span) bool { return a.find(c.Start) != nil })
	s.countCode(f)
	if f.Spans.Bytes() > limit/4*3 {
		f.Broken = true
		s.failed(reason.New(reason.TooLarge, fmt.Errorf("reading the %s %s: %d functions at byte %d: %w of %d for one file; what follows has no names",
			f.Format.Kind(), f.Path, count, f.Read, reason.ErrTooLarge, limit)))
	}
}

// renameFrames drops the frames, and keeps the functions.
func (s *Symbolizer) renameFrames(b *binary) {
	before := b.frames.bytes()
	for _, g := range []*generation{&b.frames.young, &b.frames.old} {
		g.bytes -= entryBytes * int64(len(g.frames))
		g.frames = nil
	}
	s.frameBytes += b.frames.bytes() - before
}

// oldestCode returns the least recently used file with spans.
func (s *Symbolizer) oldestCode() (oldest *codemap.File) {
	for f := range s.jitted.files {
		if f.Spans.Count > 0 && (oldest == nil || f.Used < oldest.Used) {
			oldest = f
		}
	}
	return oldest
}

// evictCode drops the spans of a file, which is read from its beginning when it is needed again.
func (s *Symbolizer) evictCode(f *codemap.File) {
	f.Restart()
	s.countCode(f)
	s.count.tablesEvicted++
	if a := s.jitted.files[f]; a.jit.bin != nil {
		s.resetFrames(a.jit.bin)
	}
}

// leaveJIT drops what is known of a process's code.
func (s *Symbolizer) leaveJIT(a *AddressSpace) {
	for pc, w := range a.jit.late {
		s.arrive(a, pc, w, nil)
	}
	for _, f := range a.jit.files() {
		s.abandon(f)
	}
	if a.jit.bin != nil {
		s.forget(a.jit.bin)
	}
	s.runs(a, language{})
	a.jit = jit{}
}

// countCode counts the memory of a file's spans, none if the file was dropped.
func (s *Symbolizer) countCode(f *codemap.File) {
	n := int64(0)
	if _, known := s.jitted.files[f]; known {
		n = f.Spans.Bytes()
	}
	s.jitted.bytes += n - s.jitted.counted[f]
	if n == 0 {
		delete(s.jitted.counted, f)
		return
	}
	if s.jitted.counted == nil {
		s.jitted.counted = map[*codemap.File]int64{}
	}
	s.jitted.counted[f] = n
}

// closeAllCode closes every file.
func (s *Symbolizer) closeAllCode() {
	for f := range s.jitted.files {
		s.closeCode(f)
	}
	s.jitted = jitted{}
}
