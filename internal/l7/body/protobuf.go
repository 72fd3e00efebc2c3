// SPDX-License-Identifier: Apache-2.0

package body

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Types of fields on the wire: https://protobuf.dev/programming-guides/encoding.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// deepest is how far messages within messages are looked into.
const deepest = 16

// AppendProtobuf appends the fields of a message of Protocol Buffers, by their numbers, since their names are unknown:
// 1: 150 2: "text" 3 {1: 7} 4: 0x3ff0000000000000 5: <12 bytes>. Whether bytes are a text or a message is not certain in every case; texts
// are taken for such first. It appends no more once to has the limit; cut says that the message may go on after the data. ok is false if
// the data are no such message.
func AppendProtobuf(to, data []byte, limit int, cut bool) (text []byte, ok bool) {
	return appendMessage(to, data, limit, cut, deepest)
}

// appendMessage is AppendProtobuf of a message in which others are looked into so deep.
func appendMessage(to, data []byte, limit int, cut bool, deep int) (_ []byte, ok bool) {
	for first := true; len(data) > 0 && len(to) < limit; first = false {
		tag, n := binary.Uvarint(data)
		if n == 0 {
			return to, cut
		}
		number := tag >> 3
		if n < 0 || number == 0 || number > 1<<29-1 {
			return to, false
		}
		data = data[n:]
		began := len(to)
		if !first {
			to = append(to, ' ')
		}
		to = strconv.AppendUint(to, number, 10)
		var all bool
		if to, data, all, ok = appendValue(to, data, tag&7, limit, cut, deep); !ok {
			return to, false
		}
		if !all {
			return to[:began], cut
		}
	}
	return to, true
}

// appendValue appends the value of a field and returns what follows it; all is false where the data end within it and nothing of it
// is written.
func appendValue(to, data []byte, wire uint64, limit int, cut bool, deep int) (_, rest []byte, all, ok bool) {
	switch wire {
	case wireVarint:
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return to, nil, false, n == 0
		}
		return strconv.AppendUint(append(to, ": "...), value, 10), data[n:], true, true
	case wireFixed64:
		if len(data) < 8 {
			return to, nil, false, true
		}
		return fmt.Appendf(to, ": 0x%016x", binary.LittleEndian.Uint64(data)), data[8:], true, true
	case wireFixed32:
		if len(data) < 4 {
			return to, nil, false, true
		}
		return fmt.Appendf(to, ": 0x%08x", binary.LittleEndian.Uint32(data)), data[4:], true, true
	case wireBytes:
		length, n := binary.Uvarint(data)
		if n <= 0 {
			return to, nil, false, n == 0
		}
		data = data[n:]
		if length > uint64(len(data)) {
			if !cut {
				return to, nil, false, true
			}
			return appendBytes(to, data, length, limit, true, deep), nil, true, true
		}
		return appendBytes(to, data[:length], length, limit, false, deep), data[length:], true, true
	}
	return to, nil, false, false // groups are no longer made
}

// appendBytes appends a value of so many bytes, of which the first are there.
func appendBytes(to, value []byte, length uint64, limit int, cut bool, deep int) []byte {
	text := value
	if cut {
		text = WholeRunes(value)
	}
	if isText(text) {
		return strconv.AppendQuote(append(to, ": "...), string(text))
	}
	if deep > 0 {
		began := len(to)
		if within, ok := appendMessage(append(to, " {"...), value, limit, cut, deep-1); ok {
			return append(within, '}')
		}
		to = to[:began]
	}
	return fmt.Appendf(to, ": <%d bytes>", length)
}

// isText reports whether the bytes are a text that people read.
func isText(value []byte) bool {
	for len(value) > 0 {
		r, n := utf8.DecodeRune(value)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) && !unicode.IsSpace(r) {
			return false
		}
		value = value[n:]
	}
	return true
}
