// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"os"
	"sort"
	"strings"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// rereadInterval is the least time between two reads of one process's memory map
// that a stack without a mapping causes, when those before found nothing;
// rereadSoon is that of the first, since a program that was read as it began maps
// more right after that.
const (
	rereadInterval = time.Second
	rereadSoon     = 50 * time.Millisecond
)

const regionBytes = int64(unsafe.Sizeof(region{})) + 16 // few have a path of their own

// AddressSpace is where one process mapped its binaries. It is safe for
// concurrent use.
type AddressSpace struct {
	s    *Symbolizer
	id   model.ProcessID
	pace pace

	// Guarded by the mutex of the Symbolizer.
	regions []region // sorted
	jit     jit
	ran     model.Runtime // set as it is closed
	nowhere region        // stands for addresses without a mapping
	last    int           // index of the region that was hit last
	read    time.Time
	pause   time.Duration // before it is read again for a stack without a mapping
	closed  bool
	frozen  bool
}

// Open reads the executable mappings of a process and opens the binaries that
// are not known yet; it builds no tables. StartTicks 0 is not checked. The
// error wraps [ErrProcessExited] when there is no such process any more.
func (s *Symbolizer) Open(id model.ProcessID) (*AddressSpace, error) {
	a := &AddressSpace{s: s, id: id}
	a.nowhere.bin = nameless("", noMapping)
	regions, err := a.readRegions()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.closed {
		s.release(regions)
		return nil, errClosed
	}
	if err != nil {
		s.failed(err)
		return nil, err
	}
	a.install(regions)
	s.all[a.nowhere.bin] = struct{}{}
	s.spaces++
	s.regionBytes += recordBytes
	s.look(a, 0)
	return a, nil
}

// RefreshIn is how long a Refresh that can wait should wait, so that a process does not
// cost too much whose mappings change all the time.
func (a *AddressSpace) RefreshIn() time.Duration { return a.pace.wait(a.s.now()) }

// ReadSince is the time from which on changes of the memory map may not have been seen.
func (a *AddressSpace) ReadSince() time.Time { return a.pace.lastBegan() }

// Refresh reads the memory map again, as is due after an exec or dlopen. When
// the process is gone the map stays what it was.
func (a *AddressSpace) Refresh() error {
	regions, err := a.readRegions()
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if err != nil {
		a.s.failed(err)
		if errors.Is(err, ErrProcessExited) {
			a.nowhere.bin.cause = processExited
		}
		return err
	}
	if a.closed || a.s.closed {
		a.s.release(regions)
		return errClosed
	}
	a.install(regions)
	a.s.look(a, jitPauseMissed)
	return nil
}

// Freeze keeps the memory map as it is from now on: the process runs another
// program, or none. What is asked about later was seen before.
func (a *AddressSpace) Freeze() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.frozen = true
}

// Close gives up the process. Its binaries stay known.
func (a *AddressSpace) Close() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.closed {
		return
	}
	a.closed, a.ran = true, a.jit.told()
	a.s.spaces--
	if a.s.closed {
		return
	}
	a.install(nil)
	a.s.leaveJIT(a)
	a.s.regionBytes -= recordBytes
	a.s.forget(a.nowhere.bin)
}

// Frames appends the frames of a user stack, leaf first: addrs[0] is exact,
// the others are return addresses. There is one frame for each address; one
// without a Mapping or Lines is counted by its reason. When an address hits no
// mapping the memory map is read again, at most once a second.
func (a *AddressSpace) Frames(dst []*model.Frame, addrs []uint64) []*model.Frame {
	s := a.s
	s.mu.Lock()
	s.look(a, a.jit.due())
	for i, pc := range addrs {
		if i > 0 && pc > 0 {
			pc-- // into the call
		}
		dst = append(dst, s.returned(s.entryAt(a, pc)))
	}
	if s.held() > s.memory {
		s.makeRoom(0, nil)
	}
	s.mu.Unlock()
	return dst
}

// entryAt gives the frame of an address.
func (s *Symbolizer) entryAt(a *AddressSpace, pc uint64) *entry {
	r := a.find(pc)
	if r == nil {
		if e := s.compiled(a, pc); e != nil {
			return e // memory that is not executable now, since its code is being written
		}
		r = a.searchAgain(pc)
	}
	if r.bin.cause.mayBeCompiled() {
		if e := s.compiled(a, pc); e != nil {
			return e
		}
	}
	e := r.bin.frames.get(pc + r.delta)
	if e != nil {
		s.count.hits++
	} else {
		e = s.resolve(a, r, pc+r.delta)
	}
	if e.cause == noSymbol {
		if told := s.compiled(a, pc); told != nil {
			return told // the binary's own, such as the built-in functions of a stripped node
		}
	}
	return e
}

// Code returns how many addresses at the beginning of a user stack lie in
// executable mappings; as in [AddressSpace.Frames] all but the first are return
// addresses. A chain of frame pointers that is none leads out of the code soon.
func (a *AddressSpace) Code(addrs []uint64) int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for i, pc := range addrs {
		if i > 0 && pc > 0 {
			pc-- // into the call
		}
		r := a.find(pc)
		if r == nil && !a.jit.covers(pc) {
			r = a.searchAgain(pc)
		}
		if r == &a.nowhere {
			return i
		}
	}
	return len(addrs)
}

// find gives the region that holds an address, nil when there is none.
func (a *AddressSpace) find(pc uint64) *region {
	if a.last < len(a.regions) {
		if r := &a.regions[a.last]; pc >= r.start && pc < r.end {
			return r
		}
	}
	i := sort.Search(len(a.regions), func(i int) bool { return a.regions[i].end > pc })
	if i < len(a.regions) && pc >= a.regions[i].start {
		a.last = i
		return &a.regions[i]
	}
	return nil
}

// searchAgain reads the memory map anew, if that was not done just now, and
// gives the region of an address, or the one for addresses without a mapping.
// It lets go of the mutex while it reads.
func (a *AddressSpace) searchAgain(pc uint64) *region {
	if a.s.now().Sub(a.read) < max(a.pause, rereadSoon) || a.closed || a.frozen || a.s.closed || a.nowhere.bin.cause == processExited {
		return &a.nowhere
	}
	a.read = a.s.now() // also when it goes wrong
	a.s.mu.Unlock()
	err := a.Refresh()
	a.s.mu.Lock()
	if err == nil {
		if r := a.find(pc); r != nil {
			a.pause = 0
			return r
		}
	}
	a.pause = min(max(2*a.pause, rereadSoon), rereadInterval)
	return &a.nowhere
}

// install replaces the regions.
func (a *AddressSpace) install(regions []region) {
	a.s.regionBytes += regionBytes * int64(len(regions)-len(a.regions))
	old := a.regions
	a.regions, a.last, a.read = regions, 0, a.s.now()
	a.s.release(old)
	a.s.installJIT(a)
}

// release gives up the binaries of regions.
func (s *Symbolizer) release(regions []region) {
	for i := range regions {
		s.unref(regions[i].bin)
	}
}

// readRegions reads the memory map, and notes what that cost.
func (a *AddressSpace) readRegions() (regions []region, err error) {
	began := a.s.now()
	cost := cpuTimeOf(func() { regions, err = a.s.readRegions(a.id) })
	a.pace.read(began, a.s.now(), cost)
	return regions, err
}

// readRegions reads the executable mappings of a process and acquires their
// binaries.
func (s *Symbolizer) readRegions(id model.ProcessID) ([]region, error) {
	p, err := s.proc.dir(id)
	if err != nil {
		return nil, err
	}
	defer p.close()
	entries, err := p.maps()
	if err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	regions := make([]region, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		b := s.sameFile(regions, e)
		if b == nil {
			b = s.binaryOf(p, e)
		}
		if e.path == b.path {
			e.path = b.path // one copy for all processes
		}
		r := place(*e, b, page)
		if b.cause == anonymous || b.cause == noMapping {
			r.delta, r.mapping = 0, nil
		}
		regions = append(regions, r)
	}
	return regions, nil
}

// sameFile gives the binary of an earlier mapping of the same file, with a
// reference, since binaries often have several.
func (s *Symbolizer) sameFile(regions []region, e *mapEntry) *binary {
	if e.ino == 0 || len(regions) == 0 {
		return nil
	}
	r := &regions[len(regions)-1]
	if r.ino != e.ino || r.dev != e.dev || r.path != e.path {
		return nil
	}
	e.whole = r.whole
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ref(r.bin)
	return r.bin
}

// binaryOf gives what a mapping shows: a file, one of the kernel's own, or
// memory that belongs to no file.
func (s *Symbolizer) binaryOf(p *procDir, e *mapEntry) *binary {
	switch {
	case e.path == "[vdso]":
		return s.acquireVDSO(p, e)
	case e.path == "[vsyscall]":
		return s.acquireSpecial(e.path, special)
	case isDump(e.name()):
		return s.acquireSpecial(e.path, anonymous)
	case e.ino == 0 && (e.path == "" || strings.HasPrefix(e.path, "[")):
		return s.acquireSpecial("", anonymous)
	}
	return s.acquire(p, e)
}

func (s *Symbolizer) acquireSpecial(path string, why cause) *binary {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := nameless(path, why)
	s.all[b] = struct{}{}
	b.refs++
	return b
}
