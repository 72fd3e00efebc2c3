// SPDX-License-Identifier: Apache-2.0

// Package codemap reads the files in which processes list the code that they compile: perf maps and jitdumps, as they grow, and the names
// that runtimes give to functions in them. It opens no files: where they are and whether to trust them is for its callers.
package codemap

import (
	"bytes"
	"fmt"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	// maxCode is the largest size of a compiled function that is accepted.
	maxCode = 1 << 30
	// maxCodeFile is how much is read of one perf map or jitdump.
	maxCodeFile = 4 << 30
	// tailBytes are compared to find out whether a file was rewritten.
	tailBytes = 64
)

// Source is an open perf map or jitdump.
type Source interface {
	io.ReaderAt
	io.Closer
	// Size is the file's length now.
	Size() (uint64, error)
}

// Format is the format of a file that lists compiled code.
type Format interface {
	// Kind names the format in messages and metrics.
	Kind() string
	// parse takes what it can from data, the bytes of the file from offset at on; size is the file's length. It returns the offset to
	// continue from, which is at when the rest is not written yet. After an error nothing more can be read.
	parse(into *Spans, data []byte, at, size uint64) (next uint64, err error)
	// skipped returns how many records since the last call were unusable, and which was the first and where.
	skipped() (n int, first string)
	// Name reads the name of a span, at most maxName bytes of it.
	Name(from io.ReaderAt, s *Span) (string, error)
	// Line reads the source line of an address in a span; no file if the format does not have it.
	Line(from io.ReaderAt, s *Span, pc uint64, v8 bool) (file string, line int64, err error)
}

// File is a file that a process writes to list the code that it compiles. It is read as it grows.
type File struct {
	Path   string
	Format Format
	Fresh  func() Format // for a file that begins anew
	Key    Key
	Src    Source // nil while closed
	Spans  Spans
	Read   uint64 // offset up to which the file was parsed
	tail   []byte // the last bytes before that
	Used   uint64 // tick of the last look-up
	Broken bool   // what follows cannot be read

	restarts int
}

// Key identifies a file while it grows.
type Key struct{ Device, Inode uint64 }

// Restart drops what was read: the file is another one, was rewritten, or its spans are evicted.
func (f *File) Restart() {
	f.Format, f.Spans, f.Read, f.tail, f.Broken = f.Fresh(), Spans{}, 0, nil, false
	f.restarts++
}

// Behind reports whether there is more to read.
func (f *File) Behind(size uint64) bool { return !f.Broken && f.Read < min(size, maxCodeFile) }

// Grow continues reading, at most about budget bytes, and returns how much it has read. Spans were changed when something was read, or when
// it reports again, as after a file was truncated or rewritten.
//
// outside makes the calls that read the file, without a lock that the caller holds. If the file is restarted or replaced meanwhile, Grow ends.
func (f *File) Grow(size uint64, budget int64, buf []byte, outside func(read func())) (read int64, again bool, err error) {
	src, restarts, tail, from := f.Src, f.restarts, f.tail, f.Read
	same := false
	outside(func() { same = sameTail(src, tail, from) })
	if f.Src != src || f.restarts != restarts {
		return 0, false, nil
	}
	if again = size < f.Read || !same; again {
		f.Restart()
		restarts = f.restarts
	}
	for f.Behind(size) && read < budget {
		at := f.Read
		data := buf[:min(uint64(len(buf)), size-at)]
		outside(func() { _, err = src.ReadAt(data, int64(at)) }) //nolint:gosec // below maxCodeFile
		if f.Src != src || f.restarts != restarts {
			return read, again, nil
		}
		if err != nil {
			return read, again, fmt.Errorf("reading %s at byte %d: %w", f.Path, at, orCut(err))
		}
		read += int64(len(data))
		next, err := f.Format.parse(&f.Spans, data, f.Read, size)
		if err != nil {
			f.Broken = true
			return read, again, reason.New(reason.BadCodeMap, fmt.Errorf("reading the %s %s: %w; what follows has no names", f.Format.Kind(), f.Path, err))
		}
		if next == f.Read {
			break
		}
		f.remember(data, next)
	}
	return read, again, f.complaint()
}

// remember records up to where data was parsed.
func (f *File) remember(data []byte, next uint64) {
	if n := next - f.Read; n <= uint64(len(data)) {
		f.tail = append(f.tail[:0], data[n-min(n, tailBytes):n]...)
	} else {
		f.tail = f.tail[:0] // beyond what was read: nothing to compare
	}
	f.Read = next
}

// sameTail reports whether the bytes before an offset are still those that were read there.
func sameTail(src Source, tail []byte, at uint64) bool {
	if len(tail) == 0 {
		return true
	}
	var now [tailBytes]byte
	n, _ := src.ReadAt(now[:len(tail)], int64(at)-int64(len(tail))) //nolint:gosec,errcheck // less is another tail
	return bytes.Equal(now[:n], tail)
}

// complaint is the error about unusable records.
func (f *File) complaint() error {
	n, first := f.Format.skipped()
	if n == 0 {
		return nil
	}
	return reason.New(reason.BadCodeMap, fmt.Errorf("reading the %s %s: %d entries left out, the first: %s", f.Format.Kind(), f.Path, n, first))
}

// orCut replaces the end of a file that is shorter than its records.
func orCut(err error) error {
	if err == io.EOF { //nolint:errorlint // as io.ReaderAt returns it
		return io.ErrUnexpectedEOF
	}
	return err
}

// skips counts the unusable entries of a file.
type skips struct {
	n     int
	first string
}

func (s *skips) add(at uint64, why string) {
	if s.n++; s.n == 1 {
		s.first = fmt.Sprintf("at byte %d: %s", at, why)
	}
}

func (s *skips) take() (int, string) {
	n, first := s.n, s.first
	*s = skips{}
	return n, first
}

// codeAt checks the range of a code entry; why is empty when it is valid.
func codeAt(start, size uint64) (why string) {
	switch {
	case size > maxCode:
		return "a function of more than 1 GiB"
	case start == 0 || start >= 1<<63 || start+size > 1<<63:
		return "code at an address that no program has"
	}
	return ""
}
