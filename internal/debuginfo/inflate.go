// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	// maxInflated bounds what one section is inflated to, and all sections of a binary together.
	maxInflated = 2 << 30
	// maxInMemory is the largest section that is inflated into memory. Larger ones go to a file that has no name.
	maxInMemory = 1 << 20
	// maxWithoutFile is the largest that goes into memory where no file can be made.
	maxWithoutFile = 16 << 20
)

// inflater inflates the sections of one binary when they are first read.
type inflater struct {
	dir     string // for files, the system's own when empty
	claimed uint64 // what the sections claim to hold
	memory  int64  // bytes held in memory
	files   []*os.File
}

// close frees the files.
func (x *inflater) close() error {
	var errs []error
	for _, f := range x.files {
		errs = append(errs, f.Close())
	}
	x.files = nil
	return errors.Join(errs...)
}

// lazySection is a compressed section that is inflated by the first read.
type lazySection struct {
	x    *inflater
	name string
	size uint64
	open func() (io.Reader, error)
	src  io.ReaderAt
	err  error
}

// ReadAt implements io.ReaderAt.
func (l *lazySection) ReadAt(b []byte, off int64) (int, error) {
	if l.src == nil && l.err == nil {
		if l.src, l.err = l.inflate(); l.err != nil {
			l.err = fmt.Errorf("inflating %s to %d bytes: %w", l.name, l.size, l.err)
		}
		l.open = nil
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.src.ReadAt(b, off)
}

func (l *lazySection) inflate() (io.ReaderAt, error) {
	in, err := l.open()
	if err != nil {
		return nil, err
	}
	var noFile error
	if l.size > maxInMemory {
		file, err := unnamedFile(l.x.dir)
		if err == nil {
			l.x.files = append(l.x.files, file)
			return file, copyExactly(file, in, l.size)
		}
		noFile = fmt.Errorf("making a file for it: %w", err)
	}
	if l.size > maxWithoutFile {
		return nil, noFile
	}
	// A buffer that has not MinRead to spare at the end doubles itself to see that there is no more.
	out := bytes.NewBuffer(make([]byte, 0, min(l.size, maxInMemory)+bytes.MinRead))
	if err := copyExactly(out, in, l.size); err != nil {
		return nil, err
	}
	l.x.memory += int64(out.Cap())
	return bytes.NewReader(out.Bytes()), nil
}

// copyExactly copies size bytes; less is an error, more is left.
func copyExactly(to io.Writer, from io.Reader, size uint64) error {
	n, err := io.Copy(to, io.LimitReader(from, int64(size))) //nolint:gosec // at most maxInflated
	if err == nil && uint64(n) != size {
		err = fmt.Errorf("only %d: %w", n, io.ErrUnexpectedEOF)
	}
	return err
}

// section gives the content of a section by how it is kept in the file.
func (x *inflater) section(f *elfimage.File, s *elfimage.Section, name string) (elfimage.Image, error) {
	if s.Type == elf.SHT_NOBITS {
		return elfimage.Image{}, nil
	}
	if !f.Has(s.Off, s.Size) {
		return elfimage.Image{}, fmt.Errorf("%s: %w", name, elfimage.ErrTruncated)
	}
	lazy := &lazySection{x: x, name: name}
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		_, size, err := f.Inflate(s)
		if err != nil {
			return elfimage.Image{}, fmt.Errorf("%s: %w", name, err)
		}
		lazy.size, lazy.open = size, func() (io.Reader, error) {
			in, _, err := f.Inflate(s)
			return in, err
		}
	case len(name) > 2 && name[:2] == ".z":
		var head [12]byte // "ZLIB" and the size, big-endian
		if err := f.Read(head[:min(s.Size, 12)], s.Off); err != nil || string(head[:4]) != "ZLIB" {
			return elfimage.Image{}, fmt.Errorf("%s: not compressed as its name says: %w", name, errors.Join(err, elfimage.ErrTruncated))
		}
		lazy.size, lazy.open = enc.BigEndian.Uint64(head[4:]), func() (io.Reader, error) {
			return zlib.NewReader(io.NewSectionReader(f.Src, int64(s.Off)+12, int64(s.Size)-12)) //nolint:gosec // within the file
		}
	default:
		return elfimage.Image{Src: io.NewSectionReader(f.Src, int64(s.Off), int64(s.Size)), Size: s.Size}, nil //nolint:gosec // within the file
	}
	if lazy.size > maxInflated || x.claimed+lazy.size > maxInflated {
		return elfimage.Image{}, fmt.Errorf("%s: inflating %d bytes: %w of %d", name, lazy.size, ErrTooLarge, uint64(maxInflated))
	}
	x.claimed += lazy.size
	return elfimage.Image{Src: lazy, Size: lazy.size}, nil
}
