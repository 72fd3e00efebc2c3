// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const contentType = "application/grpc"

// Is reports whether a message with this Content-Type is one of gRPC: application/grpc, with or without a format or parameters.
func Is(value []byte) bool {
	if len(value) < len(contentType) || !strings.EqualFold(string(value[:len(contentType)]), contentType) {
		return false
	}
	rest := value[len(contentType):]
	return len(rest) == 0 || rest[0] == '+' || rest[0] == ';'
}

// SplitPath parts a path into service and method. ok is false where it names none.
func SplitPath(path []byte) (service, method []byte, ok bool) {
	if len(path) == 0 || path[0] != '/' {
		return nil, nil, false
	}
	slash := bytes.LastIndexByte(path, '/')
	return path[1:max(slash, 1)], path[slash+1:], slash > 1 && slash+1 < len(path)
}

// timeoutUnits are those of grpc-timeout.
var timeoutUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}

// Timeout reads a grpc-timeout; ok is false if it is none.
func Timeout(value []byte) (timeout time.Duration, ok bool) {
	const mostDigits = 8
	digits := len(value) - 1
	if digits < 1 || digits > mostDigits {
		return 0, false
	}
	n := int64(0)
	for _, c := range value[:digits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	unit, ok := timeoutUnits[value[digits]]
	if ok && n > math.MaxInt64/int64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, ok
}

// prefixSize is the size of what precedes each message: whether it is compressed, and its length.
const prefixSize = 5

// Messages counts the messages of one side of a call. The zero value is ready for the first byte of its body.
type Messages struct {
	ended   int64
	left    int64 // bytes of the message at hand
	prefix  [prefixSize]byte
	known   int // bytes of the prefix
	unknown bool
}

// Add goes on with n bytes of the body, of which the first are known.
func (m *Messages) Add(known []byte, n int64) {
	for n > 0 && !m.unknown {
		if m.left == 0 {
			taken := copy(m.prefix[m.known:], known)
			m.unknown = taken == 0
			m.known, known, n = m.known+taken, known[taken:], n-int64(taken)
			m.begin()
			continue
		}
		taken := min(m.left, n)
		known = known[min(taken, int64(len(known))):]
		n -= taken
		if m.left -= taken; m.left == 0 {
			m.ended++
		}
	}
}

// begin begins a message once its prefix is known.
func (m *Messages) begin() {
	if m.known < prefixSize {
		return
	}
	m.known = 0
	m.left = int64(m.prefix[1])<<24 | int64(m.prefix[2])<<16 | int64(m.prefix[3])<<8 | int64(m.prefix[4])
	if m.left == 0 {
		m.ended++
	}
}

// Lose says that bytes are missing.
func (m *Messages) Lose() { m.unknown = true }

// Count is how many messages were sent to their ends, or l7.Unknown.
func (m *Messages) Count() int64 {
	if m.unknown {
		return l7.Unknown
	}
	return m.ended
}

// Message is one that a side of a call has sent.
type Message struct {
	Data       []byte
	Compressed bool // as grpc-encoding says
	Cut        bool // Data are its beginning
}

// MessagesOf are the messages in a body, or in the beginning of one.
func MessagesOf(body []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for len(body) >= prefixSize {
			length := int64(binary.BigEndian.Uint32(body[1:]))
			m := Message{Compressed: body[0] != 0}
			body = body[prefixSize:]
			n := min(length, int64(len(body)))
			m.Data, m.Cut, body = body[:n], n < length, body[n:]
			if !yield(m) {
				return
			}
		}
	}
}
