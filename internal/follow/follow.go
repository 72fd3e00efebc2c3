// SPDX-License-Identifier: Apache-2.0

// Package follow reads the lines of a file while another program writes it, as `tail -F` does.
package follow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	// MaxLine bounds the memory for one line, some ten times what the receiver
	// puts into a message. Longer lines are left out and counted.
	MaxLine = 64 << 20
	// maxBacklog is how much of an existing file is read at first.
	maxBacklog = 16 << 20
	// chunk is read at a time.
	chunk = 256 << 10
)

// File reads the lines of a file while it is written, renamed and made
// again, or truncated. It is not safe for concurrent use.
type File struct {
	Path string
	// Whole has a long file read from its beginning; else only its end is.
	Whole bool
	// limit is MaxLine when 0; tests set it.
	limit int

	file   *os.File
	offset int64
	// line has the beginning of a line that is not complete yet.
	line []byte
	// skip is set inside a line that is skipped.
	skip      bool
	oversized int
	buffer    []byte
}

// Poll calls use with every new complete line, which use must not keep, and reports
// whether there was any. A file that does not exist is no error.
func (f *File) Poll(use func([]byte)) (bool, error) {
	news := false
	counted := func(line []byte) {
		news = true
		use(line)
	}
	if f.file == nil {
		if err := f.open(); err != nil || f.file == nil {
			return false, err
		}
	}
	for {
		if err := f.read(counted); err != nil {
			return news, err
		}
		rotated, err := f.rotated()
		if err != nil || !rotated {
			return news, err
		}
		// What was written between the reading and the renaming; the exporter
		// writes the last line feed into the new file.
		if err := f.read(counted); err != nil {
			return news, err
		}
		f.endLine(counted)
		f.Close()
		if err := f.open(); err != nil || f.file == nil {
			return news, err
		}
	}
}

// Pending reports whether a line has begun that is not complete yet.
func (f *File) Pending() bool { return len(f.line) > 0 }

// TakeOversized returns how many lines were left out since the last call.
func (f *File) TakeOversized() int {
	n := f.oversized
	f.oversized = 0
	return n
}

// Close closes the file.
func (f *File) Close() {
	if f.file != nil {
		_ = f.file.Close() // read only: nothing can be lost
	}
	f.file, f.offset, f.skip = nil, 0, false
	f.line = nil
}

// open leaves f.file nil when there is no file. Of a long one it takes the end.
func (f *File) open() error {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening a file to follow: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("inspecting a file that is followed: %w", err)
	}
	f.file = file
	if !f.Whole {
		f.offset = max(0, info.Size()-maxBacklog)
	}
	f.skip = f.offset > 0
	return nil
}

// rotated reports whether the path names another file by now.
func (f *File) rotated() (bool, error) {
	mine, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("inspecting a file that is followed: %w", err)
	}
	now, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("inspecting a file that is followed: %w", err)
	}
	return !os.SameFile(mine, now), nil
}

// read takes what the file has now, not what is written meanwhile.
func (f *File) read(use func([]byte)) error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("inspecting a file that is followed: %w", err)
	}
	if info.Size() < f.offset { // truncated: written anew
		f.offset, f.line, f.skip = 0, nil, false
	}
	if f.buffer == nil {
		f.buffer = make([]byte, chunk)
	}
	for f.offset < info.Size() {
		n, err := f.file.ReadAt(f.buffer[:min(chunk, info.Size()-f.offset)], f.offset)
		f.offset += int64(n)
		f.take(f.buffer[:n], use)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading a file that is followed: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
	return nil
}

// take splits part into lines.
func (f *File) take(part []byte, use func([]byte)) {
	for {
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			f.keep(part)
			return
		}
		f.keep(part[:end])
		f.endLine(use)
		part = part[end+1:]
	}
}

// keep adds to the line that has begun, unless it becomes too long.
func (f *File) keep(part []byte) {
	limit := f.limit
	if limit == 0 {
		limit = MaxLine
	}
	switch {
	case f.skip:
	case len(f.line)+len(part) > limit:
		f.skip, f.line = true, nil
		f.oversized++
	default:
		f.line = append(f.line, part...)
	}
}

// endLine calls use with the line, unless it is skipped or empty.
func (f *File) endLine(use func([]byte)) {
	if !f.skip && len(bytes.TrimSpace(f.line)) > 0 {
		use(f.line)
	}
	f.skip = false
	if cap(f.line) > 8*chunk {
		f.line = nil
	}
	f.line = f.line[:0]
}
