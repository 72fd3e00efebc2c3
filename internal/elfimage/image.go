// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"errors"
	"fmt"
	"io"
)

// ErrTruncated is the cause when a structure reaches past the end of its file.
var ErrTruncated = errors.New("beyond the end of the file")

// Image is the file of a binary: it is read in bounded chunks at given offsets.
type Image struct {
	Src  io.ReaderAt
	Size uint64 // bytes; never more than an int64 holds
}

// Has reports whether n bytes at off lie within the file.
func (m Image) Has(off, n uint64) bool { return off <= m.Size && n <= m.Size-off }

// Read fills buf from off.
func (m Image) Read(buf []byte, off uint64) error {
	if !m.Has(off, uint64(len(buf))) {
		return fmt.Errorf("reading %d bytes at offset %#x of %#x: %w", len(buf), off, m.Size, ErrTruncated)
	}
	n, err := m.Src.ReadAt(buf, int64(off)) //nolint:gosec // Has() keeps off below the size, an int64
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = ErrTruncated
	}
	return fmt.Errorf("reading %d bytes at offset %#x: %w", len(buf), off, err)
}

// Chunks calls visit with consecutive chunks of the n bytes at off, each a multiple of unit long. The bytes are only valid during the call,
// which ends the walk by returning false.
func (m Image) Chunks(buf []byte, off, n, unit uint64, visit func(pos uint64, b []byte) bool) error {
	step := uint64(len(buf)) / unit * unit
	n = n / unit * unit
	for pos := uint64(0); pos < n; {
		b := buf[:min(step, n-pos)]
		if err := m.Read(b, off+pos); err != nil {
			return err
		}
		if !visit(pos, b) {
			return nil
		}
		pos += uint64(len(b))
	}
	return nil
}
