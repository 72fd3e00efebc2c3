// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"bytes"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// maxMapLine is the longest line of a perf map that is accepted.
const maxMapLine = 16 << 10

// perfMap is the text file /tmp/perf-PID.map: lines of START SIZE NAME, the first
// two hexadecimal (tools/perf/Documentation/jit-interface.txt of Linux). A name
// goes to the end of its line and may hold blanks.
type perfMap struct {
	skips
	overlong bool // in the middle of a line that is too long
}

func NewPerfMap() Format { return &perfMap{} }

func (*perfMap) Kind() string { return "perf map" }

func (m *perfMap) skipped() (int, string) { return m.take() }

func (m *perfMap) parse(into *Spans, data []byte, at, _ uint64) (uint64, error) {
	done := uint64(0)
	for {
		rest := data[done:]
		n := bytes.IndexByte(rest, '\n')
		switch {
		case n < 0 && (m.overlong || len(rest) > maxMapLine):
			if !m.overlong {
				m.add(at+done, "a line of more than 16 KiB")
			}
			m.overlong = true
			return at + uint64(len(data)), nil
		case n < 0:
			return at + done, nil // it is being written
		case m.overlong:
			m.overlong = false
		case n > maxMapLine:
			m.add(at+done, "a line of more than 16 KiB")
		default:
			m.entry(into, rest[:n], at+done)
		}
		done += uint64(n) + 1
	}
}

// entry parses one line without its end.
func (m *perfMap) entry(into *Spans, line []byte, at uint64) {
	first, rest := mapField(line)
	second, name := mapField(rest)
	start, ok1 := proc.ParseHex(trimHex(first))
	size, ok2 := proc.ParseHex(trimHex(second))
	if !ok1 || !ok2 || len(name) == 0 {
		m.add(at, "not START SIZE NAME")
		return
	}
	if size == 0 {
		return // some write labels too
	}
	if why := codeAt(start, size); why != "" {
		m.add(at, why)
		return
	}
	into.put(Span{
		Start: start, size: uint32(size), At: at + uint64(len(line)-len(name)), length: uint32(min(len(name), elfsym.MaxName)),
	})
}

// mapField cuts a field off a line, with the blanks around it.
func mapField(line []byte) (field, rest []byte) {
	line = bytes.TrimLeft(line, " \t")
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		return line[:i], bytes.TrimLeft(line[i:], " \t\r")
	}
	return line, nil
}

func trimHex(field []byte) []byte {
	if len(field) > 2 && field[0] == '0' && field[1]|0x20 == 'x' {
		return field[2:]
	}
	return field
}

func (*perfMap) Name(from io.ReaderAt, s *Span) (string, error) {
	buf := make([]byte, s.length)
	if _, err := from.ReadAt(buf, int64(s.At)); err != nil { //nolint:gosec // below maxCodeFile
		return "", orCut(err)
	}
	// The file may have changed since.
	buf, _, _ = bytes.Cut(buf, []byte{'\n'})
	return string(bytes.TrimRight(buf, " \t\r")), nil
}

// Line implements Format: a perf map has no lines.
func (*perfMap) Line(io.ReaderAt, *Span, uint64, bool) (string, int64, error) { return "", 0, nil }
