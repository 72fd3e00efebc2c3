// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	// maxChecksum bounds the debug file whose checksum is compared, in bytes: a binary without a build id names it by .gnu_debuglink.
	maxChecksum = 512 << 20
	// checksumStep is how much of it is read in one step, a millisecond of work.
	checksumStep = 1 << 20
	// uncacheBehind is the range that the kernel is asked to drop from its cache after a step: more than the largest folio that it keeps.
	uncacheBehind = 8 << 20
)

// Search searches for the separate debug file of a binary: by its build id, or by .gnu_debuglink. It does so in steps, since the checksum of
// a large file takes seconds. It is not safe for concurrent use.
type Search struct {
	binary *elfimage.File
	places []debugPlace
	open   func(path string) (File, error)
	limit  uint64

	file  File // of the first place, while its checksum is made
	sum   *checksum
	found bool
	path  string
	errs  []error
}

// NewSearch begins to search. open is called with absolute paths.
func NewSearch(m elfimage.Image, binary string, open func(path string) (File, error)) (*Search, error) {
	f, sections, err := parse(m)
	if err != nil {
		return nil, err
	}
	return &Search{binary: f, places: debugPlaces(f, sections, BuildID(f), binary), open: open, limit: maxChecksum}, nil
}

// ErrInSteps is the cause when the checksum of a file must be compared in steps.
var ErrInSteps = errors.New("its checksum takes long to compare")

// ErrStopped is the cause when a search was stopped.
var ErrStopped = errors.New("the search was stopped")

// Separate searches without steps, and so compares no checksum of a file of more than limit bytes; the error wraps [ErrInSteps] then. It
// stops between two steps, with [ErrStopped], when stop returns true; nil: it never does. The error wraps [ErrNone] when there is no debug
// file.
func Separate(m elfimage.Image, binary string, limit uint64, stop func() bool, open func(path string) (File, error)) (File, string, error) {
	s, err := NewSearch(m, binary, open)
	if err != nil {
		return File{}, "", err
	}
	s.limit = min(limit, s.limit)
	for s.Step() {
		if stop != nil && stop() {
			return File{}, "", errors.Join(ErrStopped, s.Close())
		}
	}
	return s.Result()
}

// Step does a part of the work and reports whether there is more of it.
func (s *Search) Step() (more bool) {
	switch {
	case s.found:
	case s.sum != nil:
		done, err := s.sum.step()
		if done || err != nil {
			s.sum = nil
			s.settle(err)
		}
	case len(s.places) > 0:
		s.try(s.places[0])
	}
	return !s.found && (s.sum != nil || len(s.places) > 0)
}

// Summing reports whether the next steps make a checksum.
func (s *Search) Summing() bool { return s.sum != nil }

// try opens the file of a place.
func (s *Search) try(p debugPlace) {
	file, err := s.open(p.path)
	if err != nil {
		s.places = s.places[1:] // most places have no file
		return
	}
	s.file = file
	s.sum, err = p.check(file.Image, s.binary)
	switch {
	case s.sum == nil:
	case file.Size > maxChecksum:
		s.sum, err = nil, fmt.Errorf("%d bytes, its checksum is compared of %d at most: %w; give the binary a build id", file.Size, maxChecksum, ErrTooLarge)
	case file.Size > s.limit:
		s.sum, err = nil, fmt.Errorf("%d bytes, more than %d: %w", file.Size, s.limit, ErrInSteps)
	}
	if s.sum == nil {
		s.settle(err)
	}
}

// settle takes the file of the first place, or continues with the next.
func (s *Search) settle(err error) {
	p := s.places[0]
	s.places = s.places[1:]
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", p.path, err), s.file.Close())
		s.file = File{}
		return
	}
	s.found, s.path = true, p.path
}

// Result returns the debug file after the last step. The error wraps [ErrNone] when there is none.
func (s *Search) Result() (File, string, error) {
	if s.found {
		return s.file, s.path, nil
	}
	return File{}, "", errors.Join(append(s.errs, fmt.Errorf("separate debug file: %w", ErrNone))...)
}

// Close cancels a search whose result is not taken.
func (s *Search) Close() error {
	s.places, s.sum = nil, nil
	if s.file.Close == nil {
		return nil
	}
	return s.file.Close()
}

// checksum makes the CRC-32 of a file, which .gnu_debuglink has.
type checksum struct {
	m    elfimage.Image
	want uint32
	at   uint64
	sum  uint32
}

// step continues, and reports whether that was all of the file.
func (c *checksum) step() (done bool, err error) {
	n := min(c.m.Size-c.at, checksumStep)
	buf := make([]byte, min(n, 256<<10))
	for end := c.at + n; c.at < end; {
		part := buf[:min(end-c.at, uint64(len(buf)))]
		if _, err := io.ReadFull(io.NewSectionReader(c.m.Src, int64(c.at), int64(len(part))), part); err != nil { //nolint:gosec // below maxChecksum
			return false, err
		}
		c.sum = crc32.Update(c.sum, crc32.IEEETable, part)
		c.at += uint64(len(part))
	}
	c.uncache()
	if c.at < c.m.Size {
		return false, nil
	}
	if c.sum != c.want {
		return true, fmt.Errorf("its checksum is %08x, not %08x: %w", c.sum, c.want, errOtherFile)
	}
	return true, nil
}

// uncache drops what the kernel has cached of the file so far, if the file supports that: it was read once, and must not evict what other
// programs use. The kernel drops only folios that lie entirely in the range, and reads ahead.
func (c *checksum) uncache() {
	cached, ok := c.m.Src.(interface{ Uncache(off, n int64) })
	if !ok {
		return
	}
	from, n := c.at-min(c.at, uncacheBehind), int64(uncacheBehind)
	if c.at == c.m.Size {
		from, n = 0, 0 // all of it
	}
	cached.Uncache(int64(from), n) //nolint:gosec // below maxChecksum
}
