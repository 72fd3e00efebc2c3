// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"os"
	"sort"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// rereadInterval is the least time between two reads of one process's memory map that a stack without a mapping causes, when those before
// found nothing; rereadSoon is that of the first, since a program whose map was read at its start maps more right after that.
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
	pace budget.Pace

	// Guarded by the mutex of the Symbolizer.
	regions      []region // sorted
	lastIdentity identity // zero while it is not known
	asked        bool     // the identity was requested since the memory map was read
	jit          jit
	ran          model.Runtime // set when it is closed
	nowhere      region        // stands for addresses without a mapping
	last         int           // index of the region of the last look-up
	read         time.Time
	pause        time.Duration // before it is read again for a stack without a mapping
	closed       bool
	frozen       bool
	crowded      bool // there was no capacity for a view of a binary

	incomplete atomic.Bool // files were left out, since the user's part was used up
}

// Open reads the executable mappings of a process and opens the binaries that
// are not known yet; it builds no tables. StartTicks 0 is not checked. The
// error wraps [ErrProcessExited] when there is no such process any more.
func (s *Symbolizer) Open(id model.ProcessID) (*AddressSpace, error) {
	a := &AddressSpace{s: s, id: id}
	a.nowhere.bin = nameless("", reason.NoMapping)
	regions, spent, err := a.readRegions()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mapsRead(a.pace.LastUser(), spent)
	if err == nil && s.closed {
		s.unmap(regions)
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
	s.poll(a, 0)
	return a, nil
}

// RefreshIn is how long a deferrable Refresh should wait, so that a process whose mappings change all the time does not cost too much, nor
// all those of its user.
func (a *AddressSpace) RefreshIn() time.Duration {
	now := a.s.now()
	return max(a.pace.Wait(now), a.s.mapsWait(a.pace.LastUser()))
}

// ExecIn is RefreshIn of a process that has executed another program: it does not wait for its user's part of the CPU time.
func (a *AddressSpace) ExecIn() time.Duration { return a.pace.Wait(a.s.now()) }

// Incomplete reports whether mapped files were left out, since opening the new ones of the user's processes has taken the user's part of the
// CPU time. A Refresh after [AddressSpace.RefreshIn] adds some of them.
func (a *AddressSpace) Incomplete() bool { return a.incomplete.Load() }

// ReadSince is the time from which on changes of the memory map may not have been seen.
func (a *AddressSpace) ReadSince() time.Time { return a.pace.LastBegan() }

// Refresh rereads the memory map, as is necessary after an exec or dlopen. When the process has exited, the map stays as it was.
func (a *AddressSpace) Refresh() error {
	regions, spent, err := a.readRegions()
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.mapsRead(a.pace.LastUser(), spent)
	if err != nil {
		a.s.failed(err)
		if errors.Is(err, ErrProcessExited) {
			a.nowhere.bin.cause = reason.ProcessExited
		}
		return err
	}
	if a.closed || a.s.closed {
		a.s.unmap(regions)
		return errClosed
	}
	installing := budget.CPUTimeOf(func() { a.install(regions) })
	if spent > 0 {
		a.s.mapsRead(a.pace.LastUser(), installing)
	}
	a.asked = false // a program that was executed may be of another user
	a.s.poll(a, jitPauseMissed)
	return nil
}

// Freeze keeps the memory map as it is from now on: the process runs another program, or none. Later look-ups are of earlier samples.
func (a *AddressSpace) Freeze() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.frozen = true
}

// Close releases the process. Its binaries stay known.
func (a *AddressSpace) Close() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.closed {
		return
	}
	a.closed, a.ran = true, a.jit.current()
	a.s.spaces--
	if a.s.closed {
		return
	}
	a.install(nil)
	a.move(identity{})
	a.s.leaveJIT(a)
	a.s.regionBytes -= recordBytes
	a.s.forget(a.nowhere.bin)
}

// Frames appends the frames of a user stack, leaf first: addrs[0] is exact, the others are return addresses. There is one frame for each
// address; one without a Mapping or Lines is counted by its reason. If an address is in no mapping, the memory map is read again, at most
// once a second.
func (a *AddressSpace) Frames(dst []*model.Frame, addrs []uint64) []*model.Frame {
	s := a.s
	s.mu.Lock()
	s.poll(a, a.jit.due())
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

// entryAt returns the frame of an address.
func (s *Symbolizer) entryAt(a *AddressSpace, pc uint64) *entry {
	r := a.find(pc)
	if r == nil {
		if e := s.compiled(a, pc); e != nil {
			return e // memory that is not executable now, since its code is being written
		}
		r = a.searchAgain(pc)
	}
	if r.bin.cause.MayBeCompiled() {
		if e := s.compiled(a, pc); e != nil {
			return e
		}
	}
	b := s.viewOf(a, r)
	e := b.frames.get(pc + r.delta)
	if e != nil {
		s.count.hits++
	} else {
		e = s.resolveIn(b, a, r, pc+r.delta)
	}
	if e.cause == reason.NoSymbol {
		if listed := s.compiled(a, pc); listed != nil {
			return listed // the binary's own, such as the built-in functions of a stripped node
		}
	}
	return e
}

// Code returns how many addresses at the beginning of a user stack are in executable mappings; as in [AddressSpace.Frames] all but the first
// are return addresses. An invalid chain of frame pointers soon leads out of the code.
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

// find returns the region that contains an address, nil when there is none.
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

// searchAgain rereads the memory map, if that was not done just now, and returns the region of an address, or the one for addresses without a
// mapping. It releases the mutex while it reads.
func (a *AddressSpace) searchAgain(pc uint64) *region {
	if a.s.now().Sub(a.read) < max(a.pause, rereadSoon) || a.closed || a.frozen || a.s.closed || a.nowhere.bin.cause == reason.ProcessExited || a.s.late() {
		return &a.nowhere
	}
	if a.s.mapsWait(a.pace.LastUser()) > 0 {
		return &a.nowhere
	}
	a.read = a.s.now() // also on errors
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
	a.s.unite(regions)
	a.regions, a.last, a.read = regions, 0, a.s.now()
	a.follow(old)
	a.s.unmap(old)
	a.s.installJIT(a)
}

// unmap releases the binaries of regions.
func (s *Symbolizer) unmap(regions []region) {
	for i := range regions {
		s.unref(regions[i].bin)
	}
}

// readRegions reads the memory map; spent is what [AddressSpace.readRegionsOf] says.
func (a *AddressSpace) readRegions() (regions []region, spent time.Duration, err error) {
	p, err := a.s.proc.dir(a.id)
	if err != nil {
		return nil, 0, err
	}
	defer p.close()
	return a.readRegionsOf(p)
}

// readRegionsOf reads the memory map, and notes what that cost: spent is the part of it that is charged to the user, also where it fails: what
// opening new files took, or all where the map is read many times in a row or is not complete.
func (a *AddressSpace) readRegionsOf(p *procDir) (regions []region, spent time.Duration, err error) {
	began := a.s.now()
	user := p.account() // before the reading: of a process that exits during it, it is not known
	if user == budget.Unknown && !a.pace.LastBegan().IsZero() {
		user = a.pace.LastUser()
	}
	p.first = a.pace.LastBegan().IsZero()
	p.allowance = a.s.maps.Allowance(user, began)
	cost := budget.CPUTimeOf(func() { regions, err = a.s.readRegions(p) })
	often := a.pace.Read(user, began, a.s.now(), cost)
	if err == nil {
		a.incomplete.Store(p.incomplete)
	}
	if often || p.incomplete {
		return regions, cost, err
	}
	return regions, p.spent, err
}

// readRegions reads the executable mappings of a process and acquires their
// binaries.
func (s *Symbolizer) readRegions(p *procDir) ([]region, error) {
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
		if b.cause == reason.Anonymous || b.cause == reason.NoMapping {
			r.delta, r.mapping = 0, nil
		}
		regions = append(regions, r)
	}
	return regions, nil
}

// sameFile returns the binary of an earlier mapping of the same file, with a reference, since binaries often have several.
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

// binaryOf returns the binary of a mapping: a file, one of the kernel's own, or memory without a file.
func (s *Symbolizer) binaryOf(p *procDir, e *mapEntry) *binary {
	switch {
	case e.path == "[vdso]":
		return s.acquireVDSO(p, e)
	case e.path == "[vsyscall]":
		return s.acquireSpecial(e.path, reason.Special)
	case isDump(e.name()):
		return s.acquireSpecial(e.path, reason.Anonymous)
	case e.ino == 0 && (e.path == "" || strings.HasPrefix(e.path, "[")):
		return s.acquireSpecial("", reason.Anonymous)
	}
	return s.acquire(p, e)
}

func (s *Symbolizer) acquireSpecial(path string, why reason.Cause) *binary {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := nameless(path, why)
	s.all[b] = struct{}{}
	b.refs++
	return b
}

// opening is what one reading of a memory map does with files, and what it spends on those that are not known.
type opening struct {
	first      bool          // the map was not read before
	locating   time.Duration // CPU time of finding the last file
	spent      time.Duration // CPU time of finding and opening those that are not known
	allowance  time.Duration // where so much is spent, further files are left out
	incomplete bool          // some were
}
