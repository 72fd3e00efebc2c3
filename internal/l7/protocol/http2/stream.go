// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"slices"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
)

const (
	streamSize = int(unsafe.Sizeof(stream{}))
	valueSize  = int(unsafe.Sizeof(value{}))
)

// half is what was sent on a stream in one direction.
type half struct {
	side   l7.Side
	fields fields // of its head
	body   int64
	whole  int64
	status int // of a response, 0 where it is not known

	begun bool // something of it was seen
	// open says that a head may follow which takes the place of the one that was seen: that one is informational, or may be.
	open     bool
	ended    bool
	missing  bool // bytes of it are missing, so that its sizes are not known
	doubtful bool // bytes of the direction are missing since it was last seen, so that it may have ended

	messages grpc.Messages
	isGRPC   bool
	// grpcStatus is what grpc-status said; grpcHidden is set where there may have been an unknown one.
	grpcStatus string
	grpcHidden bool

	content *l7.Content // nil where it is not wanted
}

// reset makes the half ready for the next use of its place.
func (h *half) reset() {
	*h = half{fields: h.fields}
	h.fields.reset(len(h.fields.values))
}

// miss says that bytes of it are missing.
func (h *half) miss() {
	h.missing = true
	h.messages.Lose()
	h.content.CutBody()
}

// stream is a request and its response.
type stream struct {
	id     uint32
	halves [2]half // by direction
	pushed bool
	// ownerless says that the request was not seen and will not be.
	ownerless bool
	last      int64 // time of its last byte
}

// streams are those that were not reported yet, in the order of their numbers. Memory is used again.
type streams struct {
	active, free []*stream
	limit, spare int
}

// find returns the place of a stream, and it, or nil if it has none.
func (t *streams) find(id uint32) *stream {
	if i, found := t.search(id); found {
		return t.active[i]
	}
	return nil
}

func (t *streams) search(id uint32) (int, bool) {
	if n := len(t.active); n == 0 || t.active[n-1].id < id { // as it mostly is
		return n, false
	}
	return slices.BinarySearchFunc(t.active, id, func(s *stream, id uint32) int { return int(s.id) - int(id) })
}

func (t *streams) full() bool { return len(t.active) >= t.limit }

// add makes a place for a stream, or returns nil where there is none.
func (t *streams) add(id uint32) *stream {
	if t.full() {
		return nil
	}
	var s *stream
	if n := len(t.free); n > 0 {
		s, t.free = t.free[n-1], t.free[:n-1]
	} else {
		s = new(stream)
	}
	s.id, s.pushed, s.ownerless, s.last = id, false, false, 0
	for d := range s.halves {
		s.halves[d].reset()
	}
	i, _ := t.search(id)
	t.active = slices.Insert(t.active, i, s)
	return s
}

// remove gives the place back. Values that took much room take it no longer.
func (t *streams) remove(s *stream) {
	i, _ := t.search(s.id)
	t.active = slices.Delete(t.active, i, i+1)
	for d := range s.halves {
		s.halves[d].free()
	}
	if len(t.free) >= t.spare {
		return
	}
	const keep = 1 << 10
	for d := range s.halves {
		f := &s.halves[d].fields
		if cap(f.bytes) > keep {
			f.bytes = nil
		}
	}
	t.free = append(t.free, s)
}

// held is the number of bytes of memory held.
func (t *streams) held() (n int) {
	const pointers = 8
	n = (cap(t.active) + cap(t.free)) * pointers
	for _, list := range [][]*stream{t.active, t.free} {
		for _, s := range list {
			n += streamSize + s.halves[0].held() + s.halves[1].held()
		}
	}
	return n
}
