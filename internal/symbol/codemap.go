// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// maxCode is the largest size of one piece of compiled code that is believed.
	maxCode = 1 << 30
	// maxCodeFile is how much is read of one perf map or jitdump.
	maxCodeFile = 4 << 30
	// tailBytes are what is compared to find out whether a file was written anew.
	tailBytes = 64
)

// codeReader is an open perf map or jitdump.
type codeReader interface {
	source
	// size is the file's length now.
	size() (uint64, error)
}

// codeFormat is how a file tells where compiled code is.
type codeFormat interface {
	// kind names the format in messages and metrics.
	kind() string
	// parse takes what it can from data, the bytes of the file from offset at on;
	// size is the file's length. It gives the offset to go on from, which is at
	// when the rest is not written yet. After an error nothing more can be read.
	parse(into *codeSpans, data []byte, at, size uint64) (next uint64, err error)
	// skipped gives how many records since the last call were of no use, and what
	// and where the first one was.
	skipped() (n int, first string)
	// name reads the name of a span, at most maxName bytes of it.
	name(from io.ReaderAt, s *codeSpan) (string, error)
	// line reads which line of the source an address in a span is of; no file
	// when that is not told.
	line(from io.ReaderAt, s *codeSpan, pc uint64, v8 bool) (file string, line int64, err error)
}

// codeFile is a file that a process writes to tell where it puts the code that
// it compiles. It is read as it grows.
type codeFile struct {
	path   string
	format codeFormat
	fresh  func() codeFormat // for a file that begins anew
	key    codeKey
	src    codeReader // nil while closed
	spans  codeSpans
	read   uint64 // up to where the file was parsed
	tail   []byte // the last bytes before that
	used   uint64 // tick of the last look-up
	broken bool   // what follows cannot be read
}

// codeKey identifies a file while it grows.
type codeKey struct{ dev, ino uint64 }

// restart forgets what was read: the file is another one, was written anew, or
// its spans are given up to make room.
func (f *codeFile) restart() {
	f.format, f.spans, f.read, f.tail, f.broken = f.fresh(), codeSpans{}, 0, nil, false
}

// behind reports whether there is more to read.
func (f *codeFile) behind(size uint64) bool { return !f.broken && f.read < min(size, maxCodeFile) }

// grow reads on from where it stopped, at most about budget bytes, and tells
// what it has read. Spans are changed when something was read, or when it
// reports again, as after a file was cut short or written anew.
func (f *codeFile) grow(size uint64, budget int64, buf []byte) (read int64, again bool, err error) {
	if again = size < f.read || !f.sameTail(); again {
		f.restart()
	}
	for f.behind(size) && read < budget {
		data := buf[:min(uint64(len(buf)), size-f.read)]
		if _, err := f.src.ReadAt(data, int64(f.read)); err != nil { //nolint:gosec // below maxCodeFile
			return read, again, fmt.Errorf("reading %s at byte %d: %w", f.path, f.read, orCut(err))
		}
		read += int64(len(data))
		next, err := f.format.parse(&f.spans, data, f.read, size)
		if err != nil {
			f.broken = true
			return read, again, &reasonError{badCodeMap, fmt.Errorf("reading the %s %s: %w; what follows has no names", f.format.kind(), f.path, err)}
		}
		if next == f.read {
			break
		}
		f.remember(data, next)
	}
	return read, again, f.complaint()
}

// remember notes up to where data was parsed.
func (f *codeFile) remember(data []byte, next uint64) {
	if n := next - f.read; n <= uint64(len(data)) {
		f.tail = append(f.tail[:0], data[n-min(n, tailBytes):n]...)
	} else {
		f.tail = f.tail[:0] // beyond what was read: nothing to compare
	}
	f.read = next
}

// sameTail reports whether the bytes before the place that was reached are those
// that were read there.
func (f *codeFile) sameTail() bool {
	if len(f.tail) == 0 {
		return true
	}
	var now [tailBytes]byte
	n, _ := f.src.ReadAt(now[:len(f.tail)], int64(f.read)-int64(len(f.tail))) //nolint:gosec,errcheck // less is another tail
	return bytes.Equal(now[:n], f.tail)
}

// complaint is the error about records that were of no use.
func (f *codeFile) complaint() error {
	n, first := f.format.skipped()
	if n == 0 {
		return nil
	}
	return &reasonError{badCodeMap, fmt.Errorf("reading the %s %s: %d entries left out, the first: %s", f.format.kind(), f.path, n, first)}
}

// orCut names the end of a file that is shorter than it said.
func orCut(err error) error {
	if err == io.EOF { //nolint:errorlint // as io.ReaderAt gives it
		return io.ErrUnexpectedEOF
	}
	return err
}

// skips counts the entries of a file that are of no use.
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

// codeAt checks where a file says that code is; why is empty when it can be.
func codeAt(start, size uint64) (why string) {
	switch {
	case size > maxCode:
		return "a piece of code of more than 1 GiB"
	case start == 0 || start >= 1<<63 || start+size > 1<<63:
		return "code at an address that no program has"
	}
	return ""
}
