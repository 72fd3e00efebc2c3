// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	windowBytes = 64 << 10
	windowCount = 6
	maxRecord   = 1 << 20 // bytes that are read at once
)

// windows reads one file through a few buffers, each of which follows one of the sequential reads: functions in the order of their addresses
// are in the file in few sequences.
type windows struct {
	elfimage.Image
	slots [windowCount]window
	last  *window
	tick  uint64

	memory *memory
}

type window struct {
	off  uint64
	used uint64 // tick
	b    []byte
}

func newWindows(m elfimage.Image, held *memory) *windows { return &windows{Image: m, memory: held} }

// bytes returns the n bytes at off, valid until other parts were read.
func (w *windows) bytes(off, n uint64) ([]byte, error) {
	if n > maxRecord {
		return nil, fmt.Errorf("reading %d bytes at offset %#x: more than %d", n, off, maxRecord)
	}
	s, err := w.at(off, n)
	if err != nil {
		return nil, err
	}
	return s.b[off-s.off:][:n], nil
}

// Block returns the bytes from off to the end of a window; see elfimage.Reader.
func (w *windows) Block(off uint64) ([]byte, error) {
	s, err := w.at(off, 1)
	if err != nil {
		return nil, err
	}
	return s.b[off-s.off:], nil
}

// at returns a window that contains the n bytes at off.
func (w *windows) at(off, n uint64) (*window, error) {
	w.tick++
	if w.last != nil && w.last.holds(off, n) {
		w.last.used = w.tick
		return w.last, nil
	}
	victim := &w.slots[0]
	for i := range w.slots {
		s := &w.slots[i]
		if s.holds(off, n) {
			s.used, w.last = w.tick, s
			return s, nil
		}
		if s.used < victim.used {
			victim = s
		}
	}
	return victim, w.load(victim, off, n)
}

func (w *windows) load(s *window, off, n uint64) error {
	if !w.Has(off, n) {
		return fmt.Errorf("reading %d bytes at offset %#x of %#x: %w", n, off, w.Size, elfimage.ErrTruncated)
	}
	want := min(max(n, windowBytes), w.Size-off)
	if size := max(want, min(windowBytes, w.Size)); uint64(cap(s.b)) < want {
		if !w.memory.hold(int64(size)) { //nolint:gosec // maxRecord at most
			return w.memory.err
		}
		w.memory.drop(int64(cap(s.b)))
		s.b = make([]byte, size)
	}
	s.b, s.off, s.used = s.b[:want], off, w.tick
	w.last = s
	if err := w.Read(s.b, off); err != nil {
		s.b, w.last = s.b[:0], nil
		return err
	}
	return nil
}

func (s *window) holds(off, n uint64) bool {
	return off >= s.off && off-s.off < uint64(len(s.b)) && n <= uint64(len(s.b))-(off-s.off)
}
