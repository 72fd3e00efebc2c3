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

// orderPatience is how long a piece waits for others that were transferred before it: a
// thread may be preempted between what it did and the program that tells of it, while
// another one reads the answer.
const orderPatience = 20 * time.Millisecond

// waiting brings pieces into the order in which they were transferred.
type waiting struct {
	pieces []waitingPiece
	bytes  []byte // of all of them, one after the other
	spare  []byte // becomes bytes when pieces leave
}

type waitingPiece struct {
	piece
	at   uint64 // CLOCK_MONOTONIC, ns: its first byte
	from int    // of its bytes
	size int
}

// add takes a record, which is valid until it returns.
func (w *waiting) add(raw []byte) {
	if len(raw) < pieceBytes {
		return // cannot be: the programs write no less
	}
	p := waitingPiece{piece: *(*piece)(unsafe.Pointer(unsafe.SliceData(raw))), from: len(w.bytes), size: len(raw) - pieceBytes}
	p.at = p.Ended // one who reads has it when the call returns, one who writes gives it away when it begins
	if p.Kind == uint8(l7.Write) {
		p.at = p.Began
	}
	w.bytes = append(w.bytes, raw[pieceBytes:]...)
	w.pieces = append(w.pieces, p)
}

// size is the number of bytes of memory that pieces take which wait.
func (w *waiting) size() int { return len(w.bytes) + len(w.pieces)*int(unsafe.Sizeof(waitingPiece{})) }

// held is the number of bytes of memory held.
func (w *waiting) held() int {
	return cap(w.bytes) + cap(w.spare) + cap(w.pieces)*int(unsafe.Sizeof(waitingPiece{}))
}

// take hands over, in order, the pieces before which none is expected any more; all
// that were told until now, of CLOCK_MONOTONIC in ns, have been added.
func (w *waiting) take(now uint64, record func(p *piece, data []byte)) {
	w.takeUntil(now-min(now, uint64(orderPatience)), record)
}

// takeUntil hands over, in order, the pieces that were transferred until then.
func (w *waiting) takeUntil(then uint64, record func(p *piece, data []byte)) {
	slices.SortStableFunc(w.pieces, func(x, y waitingPiece) int { return cmp.Compare(x.at, y.at) })
	n := 0
	for ; n < len(w.pieces); n++ {
		p := &w.pieces[n]
		if p.at > then {
			break
		}
		record(&p.piece, w.bytes[p.from:][:p.size])
	}
	w.keep(n)
}

// keep forgets the first n pieces.
func (w *waiting) keep(n int) {
	rest, bytes := w.pieces[n:], w.spare[:0]
	for i := range rest {
		p := &rest[i]
		from := len(bytes)
		bytes = append(bytes, w.bytes[p.from:][:p.size]...)
		p.from = from
	}
	w.pieces = append(w.pieces[:0], rest...)
	w.bytes, w.spare = bytes, w.bytes
}
