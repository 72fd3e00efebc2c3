// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"bytes"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

const (
	// jitLineBytes is the fixed part of an entry of a line table: address, line
	// and discriminator; the file's name follows.
	jitLineBytes = 16
	// maxJitLines is how much of one line table is read.
	maxJitLines = 256 << 10
	// v8Shift is what V8 adds to the addresses of its line tables: the size of the
	// ELF header that "perf inject" puts before the code (src/diagnostics/perf-jit.cc).
	v8Shift = 0x40
)

// Line searches the table that was written before the code: its entries ascend by address, and each is valid up to the next.
func (d *jitDump) Line(from io.ReaderAt, s *Span, pc uint64, v8 bool) (string, int64, error) {
	if s.length == 0 || d.order == nil {
		return "", 0, nil
	}
	var head [jitDebugBytes]byte
	at := int64(s.At) - int64(s.length) //nolint:gosec // below maxCodeFile
	if _, err := from.ReadAt(head[:], at); err != nil {
		return "", 0, orCut(err)
	}
	total := min(int64(d.order.Uint32(head[4:])), int64(s.length), maxJitLines)
	if total <= jitDebugBytes {
		return "", 0, nil
	}
	table := make([]byte, total-jitDebugBytes)
	if _, err := from.ReadAt(table, at+jitDebugBytes); err != nil {
		return "", 0, orCut(err)
	}
	pc += d.order.Uint64(head[16:]) - s.Start // the code may have moved since
	if v8 {
		pc += v8Shift
	}
	file, line := d.search(table, d.order.Uint64(head[24:]), pc)
	return file, line, nil
}

// search returns the last entry at or below pc.
func (d *jitDump) search(table []byte, entries, pc uint64) (file string, line int64) {
	var last, name []byte
	for ; entries > 0 && len(table) > jitLineBytes; entries-- {
		if d.order.Uint64(table) > pc {
			break
		}
		number := int64(d.order.Uint32(table[8:]))
		text, rest, ok := bytes.Cut(table[jitLineBytes:], []byte{0})
		if !ok {
			break
		}
		if !bytes.Equal(text, []byte{0xff}) { // 0xff: as in the previous entry
			last = text
		}
		name, line = last, number
		table = rest
	}
	return string(name[:min(len(name), elfsym.MaxName)]), line
}
