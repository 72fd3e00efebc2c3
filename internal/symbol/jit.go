// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"regexp"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	// jitPause is the time between two polls of a process's files, and jitPauseMissed the least time when an address was not found.
	jitPause       = time.Second
	jitPauseMissed = 50 * time.Millisecond
	// jitPauseMax is how long it takes at most until a perf map is noticed of a process that had none.
	jitPauseMax = 3 * time.Second
	// jitBudget is how much of these files is read within jitWindow, for all processes together: some 4 % of a CPU while one of 1 GB is read.
	jitBudget = 4 << 20
	jitWindow = 250 * time.Millisecond
	// maxCodeFiles bounds the perf maps and jitdumps that are held open.
	maxCodeFiles = 64

	codeFileBytes = int64(unsafe.Sizeof(codemap.File{})) + 512
)

// jit is what is known of the code that one process compiled at run time.
type jit struct {
	// wanted: there is a reason to search for files that list code.
	wanted  bool
	dump    *codemap.File // a jitdump, which the process maps
	perfMap *codemap.File // /tmp/perf-PID.map
	// bin holds the frames of compiled code, by address in the process.
	bin *binary
	// late are frames whose names may come later, by address; swept is when they were last scanned.
	late    map[uint64]awaited
	swept   time.Time
	looked  time.Time
	pause   time.Duration
	runtime language
	// since is when files were first searched for, reported: the log has that the program has none; refused is the last error of a file that
	// is not read.
	since    time.Time
	reported bool
	refused  string
}

// files are the open ones, the more detailed one first.
func (j *jit) files() (list []*codemap.File) {
	for _, f := range []*codemap.File{j.dump, j.perfMap} {
		if f != nil {
			list = append(list, f)
		}
	}
	return list
}

// find returns the span that contains an address and its file.
func (j *jit) find(pc uint64) (*codemap.Span, *codemap.File) {
	if j.dump != nil {
		if s := j.dump.Spans.Find(pc); s != nil {
			return s, j.dump
		}
	}
	if j.perfMap != nil {
		if s := j.perfMap.Spans.Find(pc); s != nil {
			return s, j.perfMap
		}
	}
	return nil, nil
}

// dumpName is the name of a jitdump; its process maps the first page of it as code, only so that it is found.
var dumpName = regexp.MustCompile(`/jit-[0-9]+\.dump$`)

func isDump(path string) bool { return strings.HasSuffix(path, ".dump") && dumpName.MatchString(path) }

// compiled returns the frame of an address in compiled code, nil when no file lists code there.
func (s *Symbolizer) compiled(a *AddressSpace, pc uint64) *entry {
	if !a.jit.wanted {
		return nil
	}
	if e := a.jit.frame(pc); e != nil {
		s.count.hits++
		return e
	}
	span, file := a.jit.find(pc)
	if span == nil {
		s.poll(a, jitPauseMissed)
		span, file = a.jit.find(pc)
	}
	if span == nil {
		return nil
	}
	return s.compiledAt(a, pc, span, file)
}

// compiledAt returns the frame of an address in a span.
func (s *Symbolizer) compiledAt(a *AddressSpace, pc uint64, span *codemap.Span, file *codemap.File) *entry {
	if e := a.jit.frame(pc); e != nil {
		return e
	}
	s.count.misses++
	return s.nameCompiled(a, pc, span, file)
}

// frame finds the frame of an address in the cache.
func (j *jit) frame(pc uint64) *entry {
	if j.bin == nil {
		return nil
	}
	return j.bin.frames.get(pc)
}

// nameCompiled makes the frame of an address in a span.
func (s *Symbolizer) nameCompiled(a *AddressSpace, pc uint64, span *codemap.Span, file *codemap.File) *entry {
	e := &entry{frame: model.Frame{Type: model.FrameNative, Address: pc}}
	at := *span // the spans change while the lock is released
	span = &at
	s.tick++
	file.Used = s.tick
	if a.jit.bin == nil {
		a.jit.bin = nameless("", reason.Anonymous)
		s.all[a.jit.bin] = struct{}{}
	}
	if err := s.describe(a, e, span, file); err != nil {
		e.cause = s.failed(err)
	}
	if s.closed || a.closed {
		return e // it would never be dropped
	}
	if a.jit.bin != nil {
		s.putFrame(a.jit.bin, pc, e)
	}
	return e
}

// poll reads what a process has written about its code since the last time, unless that was less than pause ago.
func (s *Symbolizer) poll(a *AddressSpace, pause time.Duration) {
	j := &a.jit
	now := s.now()
	if !j.wanted || a.closed || s.closed || now.Sub(j.looked) < max(pause, j.pause) {
		return
	}
	j.looked = now
	s.discover(a)
	changed, again, behind := false, false, false
	for _, f := range j.files() {
		more, anew, left := s.readOn(a, f, now)
		changed, again, behind = changed || more, again || anew, behind || left
	}
	switch {
	case j.bin == nil:
	case again: // former offsets in the file are void
		s.resetFrames(j.bin)
	case changed:
		s.renameFrames(j.bin)
	}
	if changed || now.Sub(j.swept) >= awaitFor/16 {
		s.arrivals(a, now)
	}
	j.rest(behind)
	s.report(a, now)
}

// due is the time between two polls: less if frames wait for names.
func (j *jit) due() time.Duration {
	if len(j.late) > 0 {
		return jitPauseMissed
	}
	return jitPause
}

// rest schedules the next poll.
func (j *jit) rest(behind bool) {
	switch {
	case behind:
		j.pause = jitWindow
	case j.dump != nil || j.perfMap != nil:
		j.pause = 0
	default: // it may be about to begin one, or never will
		j.pause = min(max(2*j.pause, jitPauseMissed), jitPauseMax)
	}
}

// codeBuffers are the buffers that files which list code are read into.
var codeBuffers = sync.Pool{New: func() any { return new([elfsym.ScratchBytes]byte) }}

// readOn reads what was appended to a file, within the budget. It returns whether spans were changed, whether from the beginning on, and
// whether there is more.
func (s *Symbolizer) readOn(a *AddressSpace, f *codemap.File, now time.Time) (changed, again, behind bool) {
	if f.Src == nil {
		return false, false, false
	}
	if now.Sub(s.jitted.window) >= jitWindow {
		s.jitted.window, s.jitted.budget = now, jitBudget
	}
	if s.jitted.reading[f] {
		return false, false, true // by another caller
	}
	if s.jitted.reading == nil {
		s.jitted.reading = map[*codemap.File]bool{}
	}
	s.jitted.reading[f] = true
	defer delete(s.jitted.reading, f)
	src := f.Src
	s.hold(src)
	defer s.release(src)
	var size uint64
	var err error
	s.mu.outside(func() { size, err = src.Size() })
	if err != nil {
		s.failed(reason.New(reason.NoFile, err))
		return false, false, false
	}
	buf := codeBuffers.Get().(*[elfsym.ScratchBytes]byte)
	defer codeBuffers.Put(buf)
	read, again, err := f.Grow(size, s.jitted.budget, buf[:], s.mu.outside)
	s.jitted.budget -= read
	s.countCode(f)
	if err != nil {
		s.failed(err)
	}
	s.bound(a, f)
	return read > 0, again, f.Behind(size)
}
