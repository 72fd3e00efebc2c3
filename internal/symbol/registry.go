// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
)

// maxAliases bounds the files that share the tables of one binary.
const maxAliases = 256

// candidate is a mapped file that was found but is not open for reading yet.
type candidate interface {
	// key identifies the file.
	key() fileKey
	// open opens it for reading.
	open() (source, error)
	// close forgets it.
	close() error
}

// acquire gives the binary of a mapping, from what is known or by reading its
// headers, with one reference taken. Whatever goes wrong is counted and
// becomes a binary without names.
func (s *Symbolizer) acquire(p *procDir, e *mapEntry) *binary {
	c, err := p.locate(e)
	if err != nil {
		return s.acquireNameless(e, err)
	}
	b, err := s.acquireFile(c, e.name())
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

// acquireFile gives the binary of a file. An error beside a binary says what
// is wrong with it.
func (s *Symbolizer) acquireFile(c candidate, path string) (*binary, error) {
	key := c.key()
	s.mu.Lock()
	b := s.binaries[key]
	if b != nil {
		s.ref(b)
	}
	readable := b != nil && (b.file != nil || b.cause != named)
	s.mu.Unlock()
	if readable {
		return b, nil
	}
	src, err := c.open()
	if err != nil {
		return b, err
	}
	if b != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return b, s.attach(b, src)
	}
	fresh, err := newBinary(path, key, src)
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
		s.closeFile(fresh) //nolint:errcheck // counted there
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
		s.attach(known, src) //nolint:errcheck // counted there
		return known
	}
	s.serial++
	fresh.serial = s.serial
	fresh.refs++
	s.binaries[fresh.key] = fresh
	s.all[fresh] = struct{}{}
	if fresh.cause != named {
		s.closeFile(fresh) //nolint:errcheck // counted there
	} else if _, taken := s.byContent[fresh.content]; !taken && fresh.sharable {
		s.byContent[fresh.content] = fresh
	}
	s.limitOpen(fresh)
	s.makeRoom(0, fresh)
	return fresh
}

// twin finds a known binary of the same content and makes it known under this
// identity too.
func (s *Symbolizer) twin(fresh *binary) *binary {
	b := s.byContent[fresh.content]
	if b == nil || fresh.cause != named || !fresh.sharable || len(b.aliases) == maxAliases {
		return nil
	}
	b.aliases = append(b.aliases, fresh.key)
	s.binaries[fresh.key] = b
	return b
}

// attach gives a known binary its open file. Frames that had to go without are
// forgotten, so that they get their names now.
func (s *Symbolizer) attach(b *binary, src source) error {
	if s.closed {
		return errors.Join(errClosed, s.counted(b, src.Close()))
	}
	if b.file != nil {
		return s.counted(b, src.Close())
	}
	b.file = src
	s.open++
	if b.lost {
		b.lost = false
		s.resetFrames(b)
	}
	s.limitOpen(b)
	return nil
}

// ref takes a reference, which keeps a binary from being forgotten.
func (s *Symbolizer) ref(b *binary) {
	if b.refs == 0 && b.serial != 0 {
		s.idle--
	}
	b.refs++
}

// unref gives a reference back. With the last one the file is closed, since an
// open file keeps a deleted one on disk and its file system mounted; tables
// and frames stay for the next process.
func (s *Symbolizer) unref(b *binary) {
	if b.refs--; b.refs > 0 || s.closed {
		return
	}
	if b.serial == 0 {
		s.forget(b)
		return
	}
	s.tick++
	b.used = s.tick
	s.idle++
	s.lines.leave(b)
	if !b.pinned {
		s.closeFile(b) //nolint:errcheck // counted there
	}
	for s.idle > maxIdle && s.evictIdle() {
		continue
	}
}

// limitOpen closes the files that were not needed for longest, but for one.
func (s *Symbolizer) limitOpen(but *binary) {
	for s.open > s.maxOpen {
		var oldest *binary
		for b := range s.all {
			if b != but && b.file != nil && !b.pinned && (oldest == nil || b.used < oldest.used) {
				oldest = b
			}
		}
		if oldest == nil {
			return
		}
		s.closeFile(oldest) //nolint:errcheck // counted there
	}
}

// closeFile closes the file of a binary.
func (s *Symbolizer) closeFile(b *binary) error {
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	s.open--
	return s.counted(b, err)
}

// counted counts the error of closing a file and gives it a place.
func (s *Symbolizer) counted(b *binary, err error) error {
	if err != nil {
		err = &reasonError{noFile, fmt.Errorf("closing %s: %w", b.path, err)}
		s.failed(err)
	}
	return err
}

// reopen makes sure that the file of a region's binary is open.
func (s *Symbolizer) reopen(a *AddressSpace, r *region) error {
	b := r.bin
	if b.file != nil {
		return nil
	}
	if s.closed {
		return &reasonError{noFile, fmt.Errorf("reading names of %s: %w", b.path, errClosed)}
	}
	p, err := s.proc.dir(a.id)
	if err != nil {
		return fmt.Errorf("reading names of %s: %w", b.path, err)
	}
	defer p.close()
	c, err := p.locate(&r.mapEntry)
	if err != nil {
		return err
	}
	defer c.close() //nolint:errcheck // a file that was only looked at
	if s.binaries[c.key()] != b {
		return &reasonError{noFile, fmt.Errorf("reading names of %s of process %d: another file is there now", b.path, a.id.PID)}
	}
	src, err := c.open()
	if err != nil {
		return err
	}
	return s.attach(b, src)
}
