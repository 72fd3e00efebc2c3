// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"slices"
	"unsafe"
)

// Span is a function that was compiled at run time.
type Span struct {
	Start uint64
	// At is the offset of its record in the file.
	At uint64
	// size is in bytes, never 0.
	size uint32
	// length is what else the format needs: of a perf map the bytes of the name
	// at `at`, of a jitdump how far before `at` the lines are (0: none).
	length uint32
}

func (c *Span) end() uint64 { return c.Start + uint64(c.size) }

const (
	codeSpanBytes = int64(unsafe.Sizeof(Span{}))
	// codeBlock is how many spans a block holds at most: inserting moves half of
	// them, some 6 KiB.
	codeBlock = 512
)

// Spans are spans by address, without overlaps: a later one replaces those that it overlaps, since addresses are only reused after the
// former code was freed. They are held in blocks, so that inserting is cheap.
type Spans struct {
	blocks [][]Span // none is empty
	Count  int
}

func (c *Spans) Bytes() int64 { return int64(len(c.blocks)) * (codeBlock*codeSpanBytes + 24) }

// locate returns the block and the index in it of the first span that ends above an address; the number of blocks when there is none.
func (c *Spans) locate(addr uint64) (block, index int) {
	block, _ = slices.BinarySearchFunc(c.blocks, addr, func(b []Span, addr uint64) int {
		return endsAbove(&b[len(b)-1], addr)
	})
	if block == len(c.blocks) {
		return block, 0
	}
	index, _ = slices.BinarySearchFunc(c.blocks[block], addr, func(s Span, addr uint64) int { return endsAbove(&s, addr) })
	return block, index
}

// endsAbove orders a span for a search: -1 when it ends at or below an address.
func endsAbove(s *Span, addr uint64) int {
	if s.end() <= addr {
		return -1
	}
	return 1
}

// Find returns the span that contains an address, nil when there is none.
func (c *Spans) Find(addr uint64) *Span {
	block, index := c.locate(addr)
	if block == len(c.blocks) {
		return nil
	}
	if s := &c.blocks[block][index]; s.Start <= addr {
		return s
	}
	return nil
}

// put adds a span, of which the end must not be beyond the last address.
func (c *Spans) put(s Span) {
	block, index := c.locate(s.Start)
	c.clear(block, index, s.end())
	// The position may have changed: it is found again, by the start.
	block, index = c.locate(s.Start)
	switch {
	case len(c.blocks) == 0:
		c.blocks = append(c.blocks, make([]Span, 0, codeBlock))
	case block == len(c.blocks):
		block--
		index = len(c.blocks[block])
	}
	if len(c.blocks[block]) == codeBlock {
		block, index = c.split(block, index)
	}
	c.blocks[block] = slices.Insert(c.blocks[block], index, s)
	c.Count++
}

// clear removes spans from an index on that begin below an address.
func (c *Spans) clear(block, index int, below uint64) {
	for block < len(c.blocks) {
		b := c.blocks[block]
		last := index
		for last < len(b) && b[last].Start < below {
			last++
		}
		if last == index {
			return
		}
		more := last == len(b)
		c.Count -= last - index
		if c.blocks[block] = slices.Delete(b, index, last); len(c.blocks[block]) == 0 {
			c.blocks = slices.Delete(c.blocks, block, block+1)
		} else {
			block++
		}
		if !more {
			return
		}
		index = 0
	}
}

// split makes two blocks of a full one and returns where an index in it is now. At the very end, where spans at growing addresses are added,
// a new block begins.
func (c *Spans) split(block, index int) (int, int) {
	half := codeBlock / 2
	if block == len(c.blocks)-1 && index == codeBlock {
		half = codeBlock - 1
	}
	upper := append(make([]Span, 0, codeBlock), c.blocks[block][half:]...)
	c.blocks[block] = c.blocks[block][:half]
	c.blocks = slices.Insert(c.blocks, block+1, upper)
	if index < half {
		return block, index
	}
	return block + 1, index - half
}

// Retain drops the spans that keep rejects and packs the others.
func (c *Spans) Retain(keep func(*Span) bool) {
	old := c.blocks
	*c = Spans{}
	for _, b := range old {
		for i := range b {
			if keep(&b[i]) {
				c.push(b[i])
			}
		}
	}
}

// push adds a span above all others.
func (c *Spans) push(s Span) {
	last := len(c.blocks) - 1
	if last < 0 || len(c.blocks[last]) == codeBlock {
		c.blocks = append(c.blocks, make([]Span, 0, codeBlock))
		last++
	}
	c.blocks[last] = append(c.blocks[last], s)
	c.Count++
}

// remove drops the span that begins at an address, if there is one.
func (c *Spans) remove(start uint64) {
	if block, index := c.locate(start); block < len(c.blocks) && c.blocks[block][index].Start == start {
		c.clear(block, index, start+1)
	}
}
