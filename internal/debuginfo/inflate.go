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
	// maxInflated bounds the claimed size of all sections of a binary, and the size of the files of all binaries that share a Workspace.
	maxInflated = 2 << 30
	// maxFurther bounds the claimed size of the sections of a further file, such as a .dwo file: those are inflated at once, when they are
	// first read.
	maxFurther = 128 << 20
	// maxRatio is the most that a byte is inflated to. Deflate cannot do more, and no debug information comes near it.
	maxRatio = 1032
	// maxInMemory is the largest section that is inflated into memory. Larger ones go to an unnamed file.
	maxInMemory = 1 << 20
	// maxWithoutFile is the largest section that is inflated into memory if no file can be made.
	maxWithoutFile = 16 << 20
)

// inflater inflates the sections of one file: when they are first read, or before, in slices.
type inflater struct {
	dir      string     // for files, the system's own when empty
	space    *Workspace // counts the size of all files
	limit    uint64     // of what the sections claim
	claimed  uint64     // what the sections claim to hold
	memory   int64      // bytes held in memory
	files    []*os.File
	inFiles  uint64 // bytes for which there are files
	sections []*lazySection
}

// slice inflates up to n bytes more of the large sections, and reports whether there is more to inflate. Reading the section returns the
// error, if any.
func (x *inflater) slice(n uint64) (more bool) {
	for _, l := range x.sections {
		if l.size <= maxInMemory || l.done() {
			continue
		}
		n -= l.advance(n)
		if n == 0 {
			return true
		}
	}
	return false
}

// close frees the files.
func (x *inflater) close() error {
	var errs []error
	for _, f := range x.files {
		errs = append(errs, f.Close())
	}
	x.space.inFiles -= x.inFiles
	x.files, x.inFiles = nil, 0
	return errors.Join(errs...)
}

// lazySection is a compressed section.
type lazySection struct {
	x    *inflater
	name string
	size uint64
	open func() (io.Reader, error)
	in   io.Reader // what is left to inflate; nil before the first byte
	to   io.Writer
	got  uint64 // bytes
	src  io.ReaderAt
	err  error
}

// ReadAt implements io.ReaderAt.
func (l *lazySection) ReadAt(b []byte, off int64) (int, error) {
	if !l.done() {
		l.advance(l.size)
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.src.ReadAt(b, off)
}

// done reports whether there is nothing left to inflate, or it failed.
func (l *lazySection) done() bool { return l.src != nil || l.err != nil }

// advance inflates up to n bytes more, and returns how many those were. At the end, all is inflated, or there is an error.
func (l *lazySection) advance(n uint64) uint64 {
	var copied uint64
	err := l.begin()
	if err == nil {
		copied = min(n, l.size-l.got)
		err = copyExactly(l.to, l.in, copied)
		l.got += copied
	}
	if err == nil && l.got < l.size {
		return copied
	}
	if err != nil {
		l.err = fmt.Errorf("inflating %s to %d bytes: %w", l.name, l.size, err)
	} else {
		l.src = l.written()
	}
	l.open, l.in, l.to = nil, nil, nil
	return copied
}

// begin allocates the destination of what is inflated.
func (l *lazySection) begin() (err error) {
	if l.in != nil {
		return nil
	}
	if l.to, err = l.x.destination(l.size); err != nil {
		return err
	}
	l.in, err = l.open()
	return err
}

// written is what has been inflated.
func (l *lazySection) written() io.ReaderAt {
	if file, ok := l.to.(*os.File); ok {
		return file
	}
	out := l.to.(*bytes.Buffer) //nolint:forcetypeassert // destination makes nothing else
	l.x.memory += int64(out.Cap())
	return bytes.NewReader(out.Bytes())
}

// destination allocates space for a section: a file, or memory.
func (x *inflater) destination(size uint64) (io.Writer, error) {
	var noFile error
	if size > maxInMemory {
		file, err := x.file(size)
		if err == nil {
			return file, nil
		}
		noFile = fmt.Errorf("making a file for it: %w", err)
	}
	if size > maxWithoutFile {
		return nil, noFile
	}
	// A buffer without MinRead spare bytes at the end doubles itself to find that there is no more.
	return bytes.NewBuffer(make([]byte, 0, min(size, maxInMemory)+bytes.MinRead)), nil
}

// file makes a file of a size, within the bound of all files.
func (x *inflater) file(size uint64) (*os.File, error) {
	if x.space.inFiles+size > maxInflated {
		return nil, fmt.Errorf("%d bytes are in such files: %w of %d for all binaries", x.space.inFiles, ErrTooLarge, uint64(maxInflated))
	}
	file, err := unnamedFile(x.dir, size)
	if err != nil {
		return nil, err
	}
	x.files = append(x.files, file)
	x.inFiles += size
	x.space.inFiles += size
	return file, nil
}

// copyExactly copies size bytes; fewer are an error, further ones stay unread.
func copyExactly(to io.Writer, from io.Reader, size uint64) error {
	n, err := io.Copy(to, io.LimitReader(from, int64(size))) //nolint:gosec // at most maxInflated
	if err == nil && uint64(n) != size {
		err = fmt.Errorf("only %d: %w", n, io.ErrUnexpectedEOF)
	}
	return err
}

// section returns the content of a section, inflated if it is compressed in the file.
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
	switch {
	case lazy.size/maxRatio > s.Size:
		return elfimage.Image{}, fmt.Errorf("%s: inflating %d bytes to %d: %w of %d times as many", name, s.Size, lazy.size, ErrTooLarge, maxRatio)
	case lazy.size > x.limit || x.claimed+lazy.size > x.limit:
		return elfimage.Image{}, fmt.Errorf("%s: inflating %d bytes: %w of %d", name, lazy.size, ErrTooLarge, x.limit)
	}
	x.claimed += lazy.size
	x.sections = append(x.sections, lazy)
	return elfimage.Image{Src: lazy, Size: lazy.size}, nil
}
