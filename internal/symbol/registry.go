// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// maxAliases bounds the files that share the tables of one binary.
const maxAliases = 256

// errUserSpent is the cause where a new file is not opened now.
var errUserSpent = reason.New(reason.OverBudget, errors.New("the user has spent its part of limits::cpu_percent on new files"))

// errLate is the cause where a file is not opened now, since memory maps have been read for too long.
var errLate = reason.New(reason.OverBudget, errors.New("reading memory maps takes so long that the report would be late"))

// errOtherFile is the cause where a path leads to another file than a region maps.
var errOtherFile = errors.New("another file than the one that is mapped")

// candidate is a mapped file that was found but is not open for reading yet.
type candidate interface {
	// key identifies the file.
	key() fileKey
	// open opens it for reading.
	open() (source, error)
	// close releases it.
	close() error
}

// acquire returns the binary of a mapping, from the known ones or by reading its headers, with one reference taken. Any error is counted and
// results in a binary without names.
func (s *Symbolizer) acquire(p *procDir, e *mapEntry) *binary {
	if s.late() {
		p.incomplete = true
		return s.acquireNameless(e, errLate)
	}
	var c candidate
	var err error
	p.locating = budget.CPUTimeOf(func() { c, err = p.locate(e) })
	if err != nil {
		return s.acquireNameless(e, err)
	}
	b, err := s.acquireFile(c, e.name(), p)
	if errClose := c.close(); err == nil && errClose != nil {
		err = fmt.Errorf("closing %s: %w", e.name(), errClose)
	}
	if b == nil {
		return s.acquireNameless(e, err)
	}
	if err != nil {
		s.mu.Lock()
		s.failed(err)
		s.mu.Unlock()
	}
	return b
}

// acquireNameless makes a binary for a mapping whose file cannot be read.
func (s *Symbolizer) acquireNameless(e *mapEntry, err error) *binary {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := nameless(e.name(), s.failed(err))
	s.all[b] = struct{}{}
	b.refs++
	return b
}

// acquireFile returns the binary of a file. An error together with a binary is what is wrong with it.
func (s *Symbolizer) acquireFile(c candidate, path string, p *procDir) (b *binary, err error) {
	key := c.key()
	key.path = path
	s.mu.Lock()
	b = s.binaries[key]
	if b != nil {
		s.ref(b)
		s.contents.ask(b)
		if p.first {
			s.use(b)
		}
	}
	readable := b != nil && (b.file != nil || b.cause != reason.Named)
	full := s.open >= s.maxOpen
	s.mu.Unlock()
	switch {
	case readable, b != nil && full && !p.first: // another file would be closed for it; it is opened when a name is read from it
		return b, nil
	case b != nil: // the process may exit before a name is read. It is no new file, and costs its user nothing
		return s.openFile(b, c, key, p)
	}
	if p.spent >= p.allowance {
		p.incomplete = true
		return nil, errUserSpent
	}
	p.spent += p.locating + budget.CPUTimeOf(func() { b, err = s.openFile(nil, c, key, p) })
	return b, err
}

// openFile opens the file of a binary, and reads its headers if it is not known.
func (s *Symbolizer) openFile(known *binary, c candidate, key fileKey, p *procDir) (*binary, error) {
	src, err := c.open()
	if err != nil {
		return known, err
	}
	if known != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return known, s.attach(known, src)
	}
	fresh, err := newBinary(key.path, key, src)
	if file, ok := c.(interface{ originOf() origin }); ok {
		fresh.cameFrom(file.originOf(), p)
	}
	s.contents.begin(fresh)
	return s.register(fresh), err
}

// register adds a binary that was just read, unless another goroutine was
// faster or the same content is already known under another identity.
func (s *Symbolizer) register(fresh *binary) *binary {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	if s.closed {
		fresh.refs++
		s.closeFile(fresh)
		return fresh
	}
	known := s.binaries[fresh.key]
	if known == nil {
		known = s.twin(fresh)
	}
	if known != nil {
		s.ref(known)
		src := fresh.file
		fresh.file = nil
		s.open--
		s.attach(known, src)
		return known
	}
	s.serial++
	fresh.serial = s.serial
	s.ref(fresh)
	s.use(fresh)
	s.binaries[fresh.key] = fresh
	s.all[fresh] = struct{}{}
	if fresh.cause != reason.Named {
		s.closeFile(fresh)
	} else if _, taken := s.byContent[fresh.contentAt()]; !taken && fresh.sharable {
		s.byContent[fresh.contentAt()] = fresh
	}
	s.contents.ask(fresh)
	s.limitOpen(fresh)
	s.makeRoom(0, fresh)
	return fresh
}

// twin finds a known binary of the same content and makes it known under this
// identity too.
func (s *Symbolizer) twin(fresh *binary) *binary {
	b := s.byContent[fresh.contentAt()]
	if b == nil || fresh.cause != reason.Named || !fresh.sharable || len(b.aliases) == maxAliases {
		return nil
	}
	b.aliases = append(b.aliases, fresh.key)
	s.binaries[fresh.key] = b
	return b
}

// attach gives a known binary its open file. Frames that lack names because of it are dropped, so that they get their names now.
func (s *Symbolizer) attach(b *binary, src source) error {
	if s.closed {
		s.discard(b.path, src)
		return errClosed
	}
	if b.file != nil {
		s.discard(b.path, src)
		return nil
	}
	b.file = src
	s.use(b)
	s.open++
	s.contents.ask(b)
	if b.lost {
		b.lost = false
		s.resetFrames(b)
	}
	s.limitOpen(b)
	return nil
}

// ref takes a reference, which keeps a binary from being dropped.
func (s *Symbolizer) ref(b *binary) {
	s.notIdle(b)
	b.refs++
}

// use notes that a binary is in use: one that was just opened is likely to be needed soon, and not to be closed for others.
func (s *Symbolizer) use(b *binary) {
	s.tick++
	b.used = s.tick
}

// unref releases a reference. With the last one the file is closed, since an open file keeps a deleted one on disk and its file system
// mounted; tables and frames stay for the next process.
func (s *Symbolizer) unref(b *binary) {
	if b.refs--; b.refs > 0 || s.closed {
		return
	}
	if b.serial == 0 {
		s.forget(b)
		return
	}
	s.use(b)
	b.resting = s.idle.PushBack(b)
	s.lines.leave(b)
	s.dropViews(b)
	if !b.pinned {
		s.closeFile(b)
	}
	for s.idle.Len() > maxIdle && s.evictIdle() {
		continue
	}
}

func (s *Symbolizer) notIdle(b *binary) {
	if b.resting != nil {
		s.idle.Remove(b.resting)
		b.resting = nil
	}
}

// closeShare is the part of maxOpen that is closed in addition when too many files are open, since each pass visits all binaries.
const closeShare = 8

// limitOpen closes the least recently used files, except one.
func (s *Symbolizer) limitOpen(but *binary) {
	if s.open <= s.maxOpen {
		return
	}
	var list []*binary
	for b := range s.all {
		if b != but && b.file != nil && !b.pinned {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *binary) int { return cmp.Compare(a.used, b.used) })
	for _, b := range list[:min(len(list), s.open-s.maxOpen+s.maxOpen/closeShare)] {
		s.closeFile(b)
	}
}

// closeFile closes the file of a binary.
func (s *Symbolizer) closeFile(b *binary) {
	if b.file == nil {
		return
	}
	s.discard(b.path, b.file)
	b.file = nil
	s.open--
}

// reopen makes sure that the file of a region's binary is open. It releases the lock if it opens it.
func (s *Symbolizer) reopen(a *AddressSpace, r *region) error {
	b := r.bin
	if b.file != nil {
		return nil
	}
	if s.closed {
		return reason.New(reason.NoFile, fmt.Errorf("reading names of %s: %w", b.path, errClosed))
	}
	e := r.mapEntry
	var src source
	var err error
	s.mu.outside(func() { src, err = a.openMapped(&e, b) })
	if err != nil {
		return err
	}
	r.whole = r.whole || e.whole
	if _, known := s.all[b]; !known || b.refs == 0 {
		s.discard(b.path, src)
		return reason.New(reason.ProcessExited, fmt.Errorf("reading names of %s: no process maps it any more: %w", b.path, ErrProcessExited))
	}
	return s.attach(b, src)
}

// openMapped opens the file of a mapping, which must be that of a binary. The lock is not held.
func (a *AddressSpace) openMapped(e *mapEntry, b *binary) (source, error) {
	p, err := a.s.proc.dir(a.id)
	if err != nil {
		return nil, fmt.Errorf("reading names of %s: %w", b.path, err)
	}
	defer p.close()
	c, err := p.locate(e)
	if err != nil {
		return nil, err
	}
	defer c.close() //nolint:errcheck // a file that was only examined
	key := c.key()
	key.path = b.path
	a.s.mu.Lock()
	ours := a.s.binaries[key] == b
	a.s.mu.Unlock()
	if !ours {
		return nil, reason.New(reason.NoFile, fmt.Errorf("reading names of %s of process %d: another file is there now", b.path, a.id.PID))
	}
	return c.open()
}
