// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// orderPatience is how long a segment waits for others that were transferred before it: a thread may be preempted between its transfer and
// the program that records it, while another one reads the response.
const orderPatience = 20 * time.Millisecond

// waiting sorts segments by the time of their transfer.
type waiting struct {
	segments []waitingPiece
	bytes    []byte // of all of them, one after the other
	spare    []byte // becomes bytes when segments leave
}

type waitingPiece struct {
	segment
	at   uint64 // CLOCK_MONOTONIC, ns: its first byte
	from int    // the index of its bytes
	size int
}

// add takes a record, which is valid until add returns.
func (w *waiting) add(raw []byte) {
	if len(raw) < segmentHeadBytes {
		return // impossible: the programs write no less
	}
	p := waitingPiece{segment: *(*segment)(unsafe.Pointer(unsafe.SliceData(raw))), from: len(w.bytes), size: len(raw) - segmentHeadBytes}
	p.at = p.Ended // a reader has the bytes when the call returns, a writer passes them on when it begins
	if p.Kind == uint8(l7.Write) {
		p.at = p.Began
	}
	w.bytes = append(w.bytes, raw[segmentHeadBytes:]...)
	w.segments = append(w.segments, p)
}

// size returns the bytes of the waiting segments.
func (w *waiting) size() int {
	return len(w.bytes) + len(w.segments)*int(unsafe.Sizeof(waitingPiece{}))
}

// held returns the bytes of memory held.
func (w *waiting) held() int {
	return cap(w.bytes) + cap(w.spare) + cap(w.segments)*int(unsafe.Sizeof(waitingPiece{}))
}

// take passes on, in order, the segments before which no other is expected after a patience; all that were recorded until now, of
// CLOCK_MONOTONIC in ns, have been added.
func (w *waiting) take(now uint64, patience time.Duration, record func(p *segment, data []byte)) {
	w.takeUntil(now-min(now, uint64(patience)), record)
}

// takeUntil passes on, in order, the segments that were transferred until then.
func (w *waiting) takeUntil(then uint64, record func(p *segment, data []byte)) {
	slices.SortStableFunc(w.segments, func(x, y waitingPiece) int { return cmp.Compare(x.at, y.at) })
	n := 0
	for ; n < len(w.segments); n++ {
		p := &w.segments[n]
		if p.at > then {
			break
		}
		record(&p.segment, w.bytes[p.from:][:p.size])
	}
	w.keep(n)
}

// keep removes the first n segments.
func (w *waiting) keep(n int) {
	rest, bytes := w.segments[n:], w.spare[:0]
	for i := range rest {
		p := &rest[i]
		from := len(bytes)
		bytes = append(bytes, w.bytes[p.from:][:p.size]...)
		p.from = from
	}
	w.segments = append(w.segments[:0], rest...)
	w.bytes, w.spare = bytes, w.bytes
}
