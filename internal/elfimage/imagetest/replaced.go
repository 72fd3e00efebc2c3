// SPDX-License-Identifier: Apache-2.0

// Package imagetest has files for tests of what reads binaries.
package imagetest // import "github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage/imagetest"

import "io"

// Replaced is a file that is replaced by another one after some reads.
type Replaced struct {
	Before, After []byte
	// Left is how many reads still are of Before; below 0 once After was read.
	Left int
}

// ReadAt implements [io.ReaderAt].
func (r *Replaced) ReadAt(to []byte, off int64) (int, error) {
	from := r.Before
	if r.Left--; r.Left < 0 {
		from = r.After
	}
	if off >= int64(len(from)) {
		return 0, io.EOF
	}
	n := copy(to, from[off:])
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}
