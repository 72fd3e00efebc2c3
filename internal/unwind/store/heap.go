// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"slices"
)

const (
	// chunkBytes is UNWIND_CHUNK_BYTES of unwind.h.
	chunkBytes = 64 << 10
	// align is what every extent begins at a multiple of.
	align = 8
)

// ErrFull is the cause when the memory that tables may take is in use.
var ErrFull = errors.New("no memory is left for unwind tables")

// extent is a part of a chunk.
type extent struct {
	chunk         uint16
	offset, bytes uint32
}

// heap allocates parts of chunks. Chunk 0 does not exist.
type heap struct {
	// grow makes the memory of a new chunk.
	grow   func(id uint16) ([]byte, error)
	max    int
	chunks []chunk // chunks[0] is unused
	used   uint64  // bytes that are allocated
}

type chunk struct {
	memory []byte
	free   []extent // by offset; neighbours are merged
	// largest is at least the size of the largest free extent.
	largest uint32
}

func newHeap(maxChunks int, grow func(uint16) ([]byte, error)) *heap {
	return &heap{grow: grow, max: min(maxChunks, 1<<16-1), chunks: make([]chunk, 1)}
}

// alloc allocates memory of at most a chunk's size; its content is undefined.
func (h *heap) alloc(bytes uint32) (extent, error) {
	bytes = (bytes + align - 1) / align * align
	if bytes == 0 || bytes > chunkBytes {
		return extent{}, fmt.Errorf("allocating %d bytes of a chunk of %d: out of bounds", bytes, chunkBytes)
	}
	for id := 1; id < len(h.chunks); id++ {
		if e, ok := h.chunks[id].take(bytes); ok {
			h.used += uint64(bytes)
			return e, nil
		}
	}
	if len(h.chunks) > h.max {
		return extent{}, ErrFull
	}
	id := uint16(len(h.chunks))
	memory, err := h.grow(id)
	if err != nil {
		return extent{}, err
	}
	h.chunks = append(h.chunks, chunk{memory: memory, free: []extent{{chunk: id, bytes: chunkBytes}}, largest: chunkBytes})
	e, _ := h.chunks[id].take(bytes)
	h.used += uint64(bytes)
	return e, nil
}

// take cuts an extent from the first free one that is large enough.
func (c *chunk) take(bytes uint32) (extent, bool) {
	if c.largest < bytes {
		return extent{}, false
	}
	largest := uint32(0)
	for i := range c.free {
		f := &c.free[i]
		if f.bytes < bytes {
			largest = max(largest, f.bytes)
			continue
		}
		e := extent{chunk: f.chunk, offset: f.offset, bytes: bytes}
		f.offset += bytes
		f.bytes -= bytes
		if f.bytes == 0 {
			c.free = slices.Delete(c.free, i, i+1)
		}
		return e, true
	}
	c.largest = largest
	return extent{}, false
}

// release frees an extent. No program may read it any more.
func (h *heap) release(e extent) {
	c := &h.chunks[e.chunk]
	h.used -= uint64(e.bytes)
	i, _ := slices.BinarySearchFunc(c.free, e, func(a, b extent) int { return int(a.offset) - int(b.offset) })
	c.free = slices.Insert(c.free, i, e)
	if i+1 < len(c.free) && c.free[i].offset+c.free[i].bytes == c.free[i+1].offset {
		c.free[i].bytes += c.free[i+1].bytes
		c.free = slices.Delete(c.free, i+1, i+2)
	}
	if i > 0 && c.free[i-1].offset+c.free[i-1].bytes == c.free[i].offset {
		c.free[i-1].bytes += c.free[i].bytes
		c.free = slices.Delete(c.free, i, i+1)
		i--
	}
	c.largest = max(c.largest, c.free[i].bytes)
}

// bytes is the memory of all chunks.
func (h *heap) bytes() uint64 { return uint64(len(h.chunks)-1) * chunkBytes }

func (h *heap) at(e extent) []byte {
	return h.chunks[e.chunk].memory[e.offset : e.offset+e.bytes : e.offset+e.bytes]
}
