// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// RegionFile is the file of a region, held so that it stays the mapped one, whatever happens to its name.
type RegionFile struct{ at heldFile }

// heldFile is a file that was found, and is held by a descriptor.
type heldFile interface {
	candidate
	// descriptorPath leads to the file by its descriptor.
	descriptorPath() string
}

// FileKey identifies a version of a file. It is only compared.
type FileKey struct{ key fileKey }

// File is the file that the region maps.
func (r *Region) File() FileKey {
	key := r.key
	key.path = ""
	return FileKey{key}
}

// ErrNoFile is the cause when a region, such as the vDSO, has no file of its own.
var ErrNoFile = errors.New("mapped from no file")

// HoldRegion finds the file of a region. The error reports a file that was removed or replaced, or wraps [ErrProcessExited] or [ErrNoFile].
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
	at, ok := c.(heldFile)
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
func (f *RegionFile) Path() string { return f.at.descriptorPath() }

// Open opens the file for reading; close frees it.
func (f *RegionFile) Open() (image elfimage.Image, closeFile func() error, err error) {
	src, err := f.at.open()
	if err != nil {
		return elfimage.Image{}, nil, err
	}
	return elfimage.Image{Src: src, Size: uint64(max(f.at.key().size, 0))}, src.Close, nil
}

// Close releases the file.
func (f *RegionFile) Close() error { return f.at.close() }
