// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	// maxLine bounds the memory for one line, some ten times what the receiver
	// puts into a message. Longer lines are left out and counted.
	maxLine = 64 << 20
	// maxBacklog is how much of an existing file is read at first.
	maxBacklog = 16 << 20
	// chunk is read at a time.
	chunk = 256 << 10
)

// follower reads the lines of a file while it is written, renamed and made
// again, or truncated.
type follower struct {
	path string
	// limit is maxLine when 0; tests set it.
	limit int

	file   *os.File
	offset int64
	// line has the beginning of a line that is not whole yet.
	line []byte
	// skip is set inside a line that is left out.
	skip      bool
	oversized int
	buffer    []byte
}

// poll gives every new whole line to use, which must not keep it, and reports
// whether there was any. A file that does not exist is no error.
func (f *follower) poll(use func([]byte)) (bool, error) {
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
		f.close()
		if err := f.open(); err != nil || f.file == nil {
			return news, err
		}
	}
}

// pending reports whether a line has begun that is not whole yet.
func (f *follower) pending() bool { return len(f.line) > 0 }

// takeOversized returns how many lines were left out since the last call.
func (f *follower) takeOversized() int {
	n := f.oversized
	f.oversized = 0
	return n
}

// close forgets the file.
func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close() // read only: nothing can be lost
	}
	f.file, f.offset, f.skip = nil, 0, false
	f.line = nil
}

// open leaves f.file nil when there is no file. Of a long one it takes the end.
func (f *follower) open() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening profiles: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("looking at profiles: %w", err)
	}
	f.file = file
	if f.offset = max(0, info.Size()-maxBacklog); f.offset > 0 {
		f.skip = true
	}
	return nil
}

// rotated reports whether the path names another file by now.
func (f *follower) rotated() (bool, error) {
	mine, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("looking at profiles: %w", err)
	}
	now, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at profiles: %w", err)
	}
	return !os.SameFile(mine, now), nil
}

// read takes what the file has now, not what is written meanwhile.
func (f *follower) read(use func([]byte)) error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at profiles: %w", err)
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
			return fmt.Errorf("reading profiles: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
	return nil
}

// take splits part into lines.
func (f *follower) take(part []byte, use func([]byte)) {
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
func (f *follower) keep(part []byte) {
	limit := f.limit
	if limit == 0 {
		limit = maxLine
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

// endLine gives the line away, unless it is left out or empty.
func (f *follower) endLine(use func([]byte)) {
	if !f.skip && len(bytes.TrimSpace(f.line)) > 0 {
		use(f.line)
	}
	f.skip = false
	if cap(f.line) > 8*chunk {
		f.line = nil
	}
	f.line = f.line[:0]
}
