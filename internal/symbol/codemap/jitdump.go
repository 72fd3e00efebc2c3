// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"bytes"
	byteorder "encoding/binary"
	"fmt"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// Layout of a jitdump (tools/perf/Documentation/jitdump-specification.txt of Linux): a header, then records, each with a header of its own.
const (
	jitMagic      = 0x4A695444 // "JiTD" as a number of the writer's byte order
	jitHeaderMin  = 40
	jitRecordHead = 16 // id, total size, timestamp

	jitCodeLoad  = 0
	jitCodeMove  = 1
	jitDebugInfo = 2
	jitCodeClose = 3

	jitLoadBytes  = jitRecordHead + 40 // pid, tid, vma, address, size, index; then the name and the code
	jitMoveBytes  = jitRecordHead + 48 // pid, tid, vma, old address, new address, size, index
	jitDebugBytes = jitRecordHead + 16 // address, number of entries; then the entries

	// maxJitRecord is the largest record that is accepted; it contains the code.
	maxJitRecord = 256 << 20
	// maxJitPending bounds the line tables whose code was not read yet.
	maxJitPending = 64
)

// jitDump is the format of the files jit-PID.dump.
type jitDump struct {
	skips
	order  byteorder.ByteOrder // nil before the header
	closed bool
	lines  map[uint64]uint64 // by address of the code: the offset of its line table, which comes before the code
}

func NewJitDump() Format { return &jitDump{} }

func (*jitDump) Kind() string { return "jitdump" }

func (d *jitDump) skipped() (int, string) { return d.take() }

// parse reads records. Their times are not needed: later records replace former ones, and samples are read soon after they were taken.
func (d *jitDump) parse(into *Spans, data []byte, at, size uint64) (uint64, error) {
	next, end := at, at+uint64(len(data))
	if d.order == nil {
		n, err := d.header(data)
		if n == 0 || err != nil {
			return at, err
		}
		next += n
	}
	for !d.closed && next+jitRecordHead <= end {
		record := data[next-at:]
		total := uint64(d.order.Uint32(record[4:]))
		id := d.order.Uint32(record)
		if total < jitRecordHead || total > maxJitRecord {
			return next, fmt.Errorf("record %d at byte %d has %d bytes", id, next, total)
		}
		if next+total > size {
			return next, nil // it is being written
		}
		if need := min(total, jitMoveBytes); next+need > end {
			return next, nil // the next chunk begins with it
		}
		d.record(into, id, record[:min(total, uint64(len(record)))], next, total)
		next += total
	}
	if d.closed {
		next = max(next, size)
	}
	return next, nil
}

// header reads the file's header and returns its length; 0 when it is not written yet.
func (d *jitDump) header(data []byte) (uint64, error) {
	if len(data) < jitHeaderMin {
		return 0, nil
	}
	var order byteorder.ByteOrder = byteorder.LittleEndian
	if byteorder.BigEndian.Uint32(data) == jitMagic {
		order = byteorder.BigEndian
	} else if order.Uint32(data) != jitMagic {
		return 0, fmt.Errorf("it begins with %x, which is no jitdump", data[:4])
	}
	length := uint64(order.Uint32(data[8:]))
	if length < jitHeaderMin || length > 64<<10 {
		return 0, fmt.Errorf("a header of %d bytes", length)
	}
	if uint64(len(data)) < length {
		return 0, nil
	}
	d.order, d.lines = order, map[uint64]uint64{}
	return length, nil
}

// record handles one record, of which data holds what was read.
func (d *jitDump) record(into *Spans, id uint32, data []byte, at, total uint64) {
	switch id {
	case jitCodeLoad:
		if total <= jitLoadBytes {
			d.add(at, "code without a name")
			return
		}
		d.load(into, d.order.Uint64(data[32:]), d.order.Uint64(data[40:]), at)
	case jitCodeMove:
		if total < jitMoveBytes {
			d.add(at, "code that moves nowhere")
			return
		}
		d.move(into, d.order.Uint64(data[32:]), d.order.Uint64(data[40:]), at)
	case jitDebugInfo:
		if total >= jitDebugBytes && len(d.lines) < maxJitPending {
			d.lines[d.order.Uint64(data[16:])] = at
		}
	case jitCodeClose:
		d.closed = true
	}
}

// load adds code at an address.
func (d *jitDump) load(into *Spans, addr, size, at uint64) {
	s := Span{Start: addr, size: uint32(size), At: at}
	if lines, ok := d.lines[addr]; ok && at-lines <= maxJitRecord {
		s.length = uint32(at - lines)
	}
	clear(d.lines) // a table comes right before its code
	if size == 0 {
		return
	}
	if why := codeAt(addr, size); why != "" {
		d.add(at, why)
		return
	}
	into.put(s)
}

// move moves code to another address.
func (d *jitDump) move(into *Spans, from, to, at uint64) {
	old := into.Find(from)
	if old == nil || old.Start != from {
		d.add(at, "code moves that was never there")
		return
	}
	moved := *old
	moved.Start = to
	if why := codeAt(to, uint64(moved.size)); why != "" {
		d.add(at, why)
		return
	}
	into.remove(from)
	into.put(moved)
}

// Name reads the name behind the fixed part of a JIT_CODE_LOAD.
func (d *jitDump) Name(from io.ReaderAt, s *Span) (string, error) {
	var buf [512]byte
	var name []byte
	for off := s.At + jitLoadBytes; len(name) < elfsym.MaxName; off += uint64(len(buf)) {
		n, err := from.ReadAt(buf[:], int64(off)) //nolint:gosec // below maxCodeFile
		part, _, ended := bytes.Cut(buf[:n], []byte{0})
		name = append(name, part...)
		if ended {
			break
		}
		if err != nil {
			return "", orCut(err)
		}
	}
	return string(name[:min(len(name), elfsym.MaxName)]), nil
}
