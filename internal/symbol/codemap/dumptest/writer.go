// SPDX-License-Identifier: Apache-2.0

// Package dumptest writes jitdumps for tests.
package dumptest

import (
	byteorder "encoding/binary"
)

// The layout of the file's header and of records, and kinds of records.
const (
	magic      = 0x4A695444
	recordHead = 16

	load      = 0
	move      = 1
	DebugInfo = 2
)

// Writer writes a jitdump as the specification says.
type Writer struct {
	byteorder.AppendByteOrder
	Data []byte
}

// New begins a jitdump.
func New(order byteorder.AppendByteOrder) *Writer {
	w := &Writer{AppendByteOrder: order}
	for _, field := range []uint32{magic, 1, 40, 62, 0, 4711} {
		w.Data = order.AppendUint32(w.Data, field)
	}
	w.Data = order.AppendUint64(w.Data, 1) // timestamp
	w.Data = order.AppendUint64(w.Data, 0) // flags
	return w
}

// Record adds a record with fields.
func (w *Writer) Record(id uint32, fields ...any) {
	var body []byte
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			body = w.AppendUint64(body, uint64(f))
		case uint32:
			body = w.AppendUint32(body, f)
		case string:
			body = append(append(body, f...), 0)
		case []byte:
			body = append(body, f...)
		}
	}
	w.Data = w.AppendUint32(w.Data, id)
	w.Data = w.AppendUint32(w.Data, uint32(recordHead+len(body)))
	w.Data = w.AppendUint64(w.Data, 7)
	w.Data = append(w.Data, body...)
}

// Load adds code at an address.
func (w *Writer) Load(addr, size int, name string) {
	w.Record(load, uint32(4711), uint32(4711), addr, addr, size, 1, name, make([]byte, size))
}

// Move adds that code moves.
func (w *Writer) Move(from, to, size int) {
	w.Record(move, uint32(4711), uint32(4711), to, from, to, size, 1)
}
