// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"net/http"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// span is where a value lies in a message's values; empty ones that were there have end > 0.
type span struct {
	start, end int
	there      bool
}

// message is what a request and a response have in common. It keeps values in one buffer that is used again for the next message.
type message struct {
	side   l7.Side
	begin  int64 // offset of its first byte
	body   int64 // bytes of the body seen
	values []byte
	asked  []span // values of the fields asked for
	last   *span  // the value that a folded line goes on with
	// missing says that bytes of it are missing, so that its end and sizes are not known.
	missing bool
	content *l7.Content // nil where it is not wanted
	framing
}

// reset makes the message ready for the next use of its place.
func (m *message) reset(asked int, first, begin int64, position uint32) {
	if cap(m.asked) < asked {
		m.asked = make([]span, asked)
	}
	m.asked = m.asked[:asked]
	clear(m.asked)
	m.side = l7.Side{Known: true, First: first, Last: first, Position: position}
	m.begin, m.body, m.last, m.missing = begin, 0, nil, false
	m.values = m.values[:0]
	m.free()
	m.framing = framing{length: noLength}
}

// keep copies a value, as far as the limit allows.
func (m *message) keep(value []byte, limit int) span {
	n := min(len(value), limit-len(m.values))
	m.side.Cut = m.side.Cut || n < len(value)
	start := len(m.values)
	m.values = append(m.values, value[:n]...)
	return span{start, start + n, true}
}

// at is a kept value, nil if there is none.
func (m *message) at(s span) []byte {
	if !s.there {
		return nil
	}
	return m.values[s.start:s.end:s.end]
}

// add gives a field another value: RFC 9110, section 5.3.
func (m *message) add(to *span, value []byte, limit int) {
	if to.there {
		m.extend(to, []byte(", "), limit)
		m.extend(to, value, limit)
	} else {
		*to = m.keep(value, limit)
	}
	m.last = to
}

// extend puts more to the end of a value, which moves there if others were kept since.
func (m *message) extend(to *span, more []byte, limit int) {
	if to.end != len(m.values) {
		*to = m.keep(m.at(*to), limit)
	}
	to.end = m.keep(more, limit).end
}

// fold goes on with the value of the line before: RFC 9112, section 5.2.
func (m *message) fold(value []byte, limit int) {
	if m.last == nil || len(value) == 0 {
		return
	}
	if m.last.end > m.last.start {
		m.extend(m.last, []byte(" "), limit)
	}
	m.extend(m.last, value, limit)
}

// end notes where the message ended: its last byte's time and the offset after it.
func (m *message) end(at, offset int64) {
	m.side.Last, m.side.Whole, m.side.Body = at, offset-m.begin, m.body
}

// free gives back what was kept of the content.
func (m *message) free() {
	m.content.Free()
	m.content = nil
}

// appendAsked appends the values of the fields that were asked for.
func (m *message) appendAsked(values [][]byte) [][]byte {
	for _, s := range m.asked {
		values = append(values, m.at(s))
	}
	return values
}

// held is the number of bytes of memory held.
func (m *message) held() int { return cap(m.values) + cap(m.asked)*24 + m.content.Held() }

// request waits for its response.
type request struct {
	message
	method           string
	original, target span
	host             span
	version          string
	tag              uint64 // of a skipped request, else 0
	expects          bool   // waits for 100 before its body
	done             bool   // it was seen to its end, or no more of it will be
	// behind says that messages may be missing before it, or of responses that were due before its own.
	behind bool
}

// sent is the method as it was sent, if the parser itself minds it.
func (q *request) sent() string {
	if q == nil {
		return ""
	}
	return q.method
}

// isInterim reports whether another one follows for the same request (RFC 9110, section 15.2).
func (r *response) isInterim() bool {
	return r.status < 200 && r.status != http.StatusSwitchingProtocols
}

// response is the one that is being read or waits for its request.
type response struct {
	message
	status  int
	version string
	upgrade span
	request *request // the one that it answers, or nil
	// ownerless says that no request that is seen later can be its own; unkept, that its request was counted only.
	ownerless, unkept bool

	active bool // its status line was read
	headed bool // and its head
	done   bool // and all of it, but its request is not read to the end, or not seen at all
}
