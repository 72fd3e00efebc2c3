// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"regexp"
	"strings"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// jitPause is the time between two looks at what a process has written, and
	// jitPauseMissed the least time when an address was not found.
	jitPause       = time.Second
	jitPauseMissed = 50 * time.Millisecond
	// jitPauseMax is how long it takes at most until a perf map is noticed of a
	// process that had none.
	jitPauseMax = 3 * time.Second
	// jitBudget is how much of these files is read within jitWindow, of all
	// processes together: some 4 % of a CPU while one of 1 GB is read.
	jitBudget = 4 << 20
	jitWindow = 250 * time.Millisecond
	// maxCodeFiles bounds the perf maps and jitdumps that are held open.
	maxCodeFiles = 64

	codeFileBytes = int64(unsafe.Sizeof(codeFile{})) + 512
)

// jit is what is known of the code that one process made while it ran.
type jit struct {
	// wanted says that there is a reason to look for files that tell of code.
	wanted  bool
	dump    *codeFile // a jitdump, which the process maps
	perfMap *codeFile // /tmp/perf-PID.map
	// bin holds the frames of compiled code, by address in the process.
	bin *binary
	// late are frames whose names may be told later, by address; swept is when they
	// were last gone through.
	late    map[uint64]awaited
	swept   time.Time
	looked  time.Time
	pause   time.Duration
	runtime language
	// since is when it was first looked for files, reported that the program was
	// said to have none; refused is what was said last of a file that is not read.
	since    time.Time
	reported bool
	refused  string
}

// files are what there is, the one that tells more first.
func (j *jit) files() (list []*codeFile) {
	for _, f := range []*codeFile{j.dump, j.perfMap} {
		if f != nil {
			list = append(list, f)
		}
	}
	return list
}

// find gives the span that holds an address and the file that tells of it.
func (j *jit) find(pc uint64) (*codeSpan, *codeFile) {
	if j.dump != nil {
		if s := j.dump.spans.find(pc); s != nil {
			return s, j.dump
		}
	}
	if j.perfMap != nil {
		if s := j.perfMap.spans.find(pc); s != nil {
			return s, j.perfMap
		}
	}
	return nil, nil
}

// mayBeCompiled reports whether code at an address of that cause may be told of
// by the process itself: it belongs to no ELF file. Some map the memory of their
// code from a file without content of its own.
func (c cause) mayBeCompiled() bool {
	switch c {
	case anonymous, notELF, notRegular, noFile, noMapping:
		return true
	}
	return false
}

// dumpName is how a jitdump is called; its process maps the first page of it as
// code, for no other reason than to be found.
var dumpName = regexp.MustCompile(`/jit-[0-9]+\.dump$`)

func isDump(path string) bool { return strings.HasSuffix(path, ".dump") && dumpName.MatchString(path) }

// compiled gives the frame of an address in compiled code, nil when nobody tells
// of code there.
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
		s.look(a, jitPauseMissed)
		span, file = a.jit.find(pc)
	}
	if span == nil {
		return nil
	}
	return s.compiledAt(a, pc, span, file)
}

// compiledAt gives the frame of an address that a file tells of.
func (s *Symbolizer) compiledAt(a *AddressSpace, pc uint64, span *codeSpan, file *codeFile) *entry {
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
func (s *Symbolizer) nameCompiled(a *AddressSpace, pc uint64, span *codeSpan, file *codeFile) *entry {
	e := &entry{frame: model.Frame{Type: model.FrameNative, Address: pc}}
	s.tick++
	file.used = s.tick
	if a.jit.bin == nil {
		a.jit.bin = nameless("", anonymous)
		s.all[a.jit.bin] = struct{}{}
	}
	if err := s.describe(a, e, span, file); err != nil {
		e.cause = s.failed(err)
	}
	if s.closed || a.closed {
		return e // nobody would ever drop it
	}
	a.jit.bin.frames.put(pc, e)
	s.frameBytes += entryBytes
	return e
}

// look sees what a process has told of its code since the last time, unless that
// was less than pause ago.
func (s *Symbolizer) look(a *AddressSpace, pause time.Duration) {
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
	case again: // what was said where in the file does not hold
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

// due is the time between two looks: less where names are waited for.
func (j *jit) due() time.Duration {
	if len(j.late) > 0 {
		return jitPauseMissed
	}
	return jitPause
}

// rest says when to look next.
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

// readOn reads what a file has more than the last time, as far as the budget
// goes. It tells whether spans were changed, whether from the beginning on, and
// whether there is more.
func (s *Symbolizer) readOn(a *AddressSpace, f *codeFile, now time.Time) (changed, again, behind bool) {
	if f.src == nil {
		return false, false, false
	}
	if now.Sub(s.jitted.window) >= jitWindow {
		s.jitted.window, s.jitted.budget = now, jitBudget
	}
	size, err := f.src.size()
	if err != nil {
		s.failed(&reasonError{noFile, err})
		return false, false, false
	}
	before := f.spans.bytes()
	read, again, err := f.grow(size, s.jitted.budget, s.scratch[:])
	s.jitted.budget -= read
	s.jitted.bytes += f.spans.bytes() - before
	if err != nil {
		s.failed(err)
	}
	s.bound(a, f)
	return read > 0, again, f.behind(size)
}
