// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"time"
)

// jitted is what is held of perf maps and jitdumps, of all processes.
type jitted struct {
	files map[*codeFile]*AddressSpace
	open  int
	bytes int64 // spans
	// speaking are the processes with a language runtime, reported the programs
	// that were said to lack names.
	speaking map[*AddressSpace]struct{}
	reported map[language]struct{}
	window   time.Time
	budget   int64 // bytes that may still be read in this window
	// awaited counts the frames of all processes whose names may be told later.
	awaited int
}

func (c *jitted) held() int64 {
	return c.bytes + int64(len(c.files))*codeFileBytes + int64(c.awaited)*awaitedBytes
}

// adopt takes a file over that was just opened; old is the one that it replaces.
func (s *Symbolizer) adopt(a *AddressSpace, old, f *codeFile) *codeFile {
	if old != nil {
		s.abandon(old)
	}
	s.tick++
	f.used = s.tick
	f.restart()
	if s.jitted.files == nil {
		s.jitted.files = map[*codeFile]*AddressSpace{}
	}
	s.jitted.files[f] = a
	s.jitted.open++
	s.limitCode(f)
	return f
}

// abandon forgets a file.
func (s *Symbolizer) abandon(f *codeFile) {
	s.jitted.bytes -= f.spans.bytes()
	s.closeCode(f) //nolint:errcheck // counted there
	delete(s.jitted.files, f)
}

func (s *Symbolizer) closeCode(f *codeFile) error {
	if f.src == nil {
		return nil
	}
	err := f.src.Close()
	f.src = nil
	s.jitted.open--
	if err != nil {
		err = &reasonError{noFile, fmt.Errorf("closing %s: %w", f.path, err)}
		s.failed(err)
	}
	return err
}

// limitCode closes the files that were not needed for longest, but for one. They
// are opened again at the next look.
func (s *Symbolizer) limitCode(but *codeFile) {
	for s.jitted.open > maxCodeFiles {
		var oldest *codeFile
		for f := range s.jitted.files {
			if f != but && f.src != nil && (oldest == nil || f.used < oldest.used) {
				oldest = f
			}
		}
		if oldest == nil {
			return
		}
		s.closeCode(oldest) //nolint:errcheck // counted there
	}
}

// bound keeps one file's spans within a quarter of the memory: those that are not
// in code any more go, as V8 tells of each function's bytecode too, and when that
// does not help the file is read no further.
func (s *Symbolizer) bound(a *AddressSpace, f *codeFile) {
	limit := s.memory / 4
	if f.spans.bytes() <= limit {
		return
	}
	before, count := f.spans.bytes(), f.spans.count
	f.spans.retain(func(c *codeSpan) bool { return a.find(c.start) != nil })
	s.jitted.bytes += f.spans.bytes() - before
	if f.spans.bytes() > limit/4*3 {
		f.broken = true
		s.failed(&reasonError{tooLarge, fmt.Errorf("reading the %s %s: %d pieces of code at byte %d: %w of %d for one file; what follows has no names",
			f.format.kind(), f.path, count, f.read, errTooLarge, limit)})
	}
}

// renameFrames forgets which frame has which function, and keeps the functions.
func (s *Symbolizer) renameFrames(b *binary) {
	before := b.frames.bytes()
	for _, g := range []*generation{&b.frames.young, &b.frames.old} {
		g.bytes -= entryBytes * int64(len(g.frames))
		g.frames = nil
	}
	s.frameBytes += b.frames.bytes() - before
}

// oldestCode gives the file with spans that was not needed for longest.
func (s *Symbolizer) oldestCode() (oldest *codeFile) {
	for f := range s.jitted.files {
		if f.spans.count > 0 && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	return oldest
}

// evictCode drops the spans of a file, which is read from its beginning when it
// is needed again.
func (s *Symbolizer) evictCode(f *codeFile) {
	s.jitted.bytes -= f.spans.bytes()
	f.restart()
	s.count.tablesEvicted++
	if a := s.jitted.files[f]; a.jit.bin != nil {
		s.resetFrames(a.jit.bin)
	}
}

// leaveJIT gives up what is known of a process's code.
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

// closeAllCode closes every file.
func (s *Symbolizer) closeAllCode() error {
	var errs []error
	for f := range s.jitted.files {
		errs = append(errs, s.closeCode(f))
	}
	s.jitted = jitted{}
	return errors.Join(errs...)
}
