// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// RegionFile is the file of a region, held so that it stays the one that is
// mapped, whatever happens to its name.
type RegionFile struct{ at *located }

// FileKey tells files apart, and versions of one file. It is only compared.
type FileKey struct{ key fileKey }

// File is the file that the region maps.
func (r *Region) File() FileKey { return FileKey{r.key} }

// ErrNoFile is the cause when a region, such as the vDSO, has no file of its own.
var ErrNoFile = errors.New("mapped from no file")

// HoldRegion finds the file of a region. The error tells of a file that is gone or
// another one by now, or wraps [ErrProcessExited] or [ErrNoFile].
func (a *AddressSpace) HoldRegion(r Region) (*RegionFile, error) {
	if r.entry.ino == 0 {
		return nil, fmt.Errorf("opening %s of process %d: %w", r.entry.name(), a.id.PID, ErrNoFile)
	}
	p, err := a.s.proc.dir(a.id)
	if err != nil {
		return nil, err
	}
	defer p.close()
	c, err := p.locate(&r.entry)
	if err != nil {
		return nil, err
	}
	at, ok := c.(*located)
	switch {
	case !ok:
		err = ErrNoFile
	case !a.known(at.key(), r):
		err = errOtherFile
	default:
		return &RegionFile{at: at}, nil
	}
	return nil, errors.Join(fmt.Errorf("opening %s of process %d: %w", r.entry.name(), a.id.PID, err), c.close())
}

// Path leads to the file as long as it is held, in this process alone.
func (f *RegionFile) Path() string { return f.at.procfs.path("proc/self/fd", strconv.Itoa(f.at.fd)) }

// Open opens the file for reading; close frees it.
func (f *RegionFile) Open() (image elfimage.Image, closeFile func() error, err error) {
	src, err := f.at.open()
	if err != nil {
		return elfimage.Image{}, nil, err
	}
	return elfimage.Image{Src: src, Size: uint64(max(f.at.stat.Size, 0))}, src.Close, nil
}

// Close lets the file go.
func (f *RegionFile) Close() error { return f.at.close() }
