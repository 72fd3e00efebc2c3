// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"slices"
	"unsafe"
)

// codeSpan is a piece of code that a program made while it runs.
type codeSpan struct {
	start uint64
	// at is where the file tells of it.
	at uint64
	// size is in bytes, never 0.
	size uint32
	// length is what else the format needs: of a perf map the bytes of the name
	// at `at`, of a jitdump how far before `at` the lines are (0: none).
	length uint32
}

func (c *codeSpan) end() uint64 { return c.start + uint64(c.size) }

const (
	codeSpanBytes = int64(unsafe.Sizeof(codeSpan{}))
	// codeBlock is how many spans a block holds at most: inserting moves half of
	// them, some 6 KiB.
	codeBlock = 512
)

// codeSpans are spans by address, none over another: a later one takes the place
// of those that it overlaps, since code is where other code was only after that
// was given up. They are held in blocks, so that putting one in is cheap.
type codeSpans struct {
	blocks [][]codeSpan // none is empty
	count  int
}

func (c *codeSpans) bytes() int64 { return int64(len(c.blocks)) * (codeBlock*codeSpanBytes + 24) }

// locate gives the block and the place in it of the first span that ends above
// an address; the number of blocks when there is none.
func (c *codeSpans) locate(addr uint64) (block, index int) {
	block, _ = slices.BinarySearchFunc(c.blocks, addr, func(b []codeSpan, addr uint64) int {
		return endsAbove(&b[len(b)-1], addr)
	})
	if block == len(c.blocks) {
		return block, 0
	}
	index, _ = slices.BinarySearchFunc(c.blocks[block], addr, func(s codeSpan, addr uint64) int { return endsAbove(&s, addr) })
	return block, index
}

// endsAbove orders a span for a search: -1 when it ends at or below an address.
func endsAbove(s *codeSpan, addr uint64) int {
	if s.end() <= addr {
		return -1
	}
	return 1
}

// find gives the span that holds an address, nil when there is none.
func (c *codeSpans) find(addr uint64) *codeSpan {
	block, index := c.locate(addr)
	if block == len(c.blocks) {
		return nil
	}
	if s := &c.blocks[block][index]; s.start <= addr {
		return s
	}
	return nil
}

// put adds a span, of which the end must not be beyond the last address.
func (c *codeSpans) put(s codeSpan) {
	block, index := c.locate(s.start)
	c.clear(block, index, s.end())
	// What was there may have moved: the place is found again, by the start.
	block, index = c.locate(s.start)
	switch {
	case len(c.blocks) == 0:
		c.blocks = append(c.blocks, make([]codeSpan, 0, codeBlock))
	case block == len(c.blocks):
		block--
		index = len(c.blocks[block])
	}
	if len(c.blocks[block]) == codeBlock {
		block, index = c.split(block, index)
	}
	c.blocks[block] = slices.Insert(c.blocks[block], index, s)
	c.count++
}

// clear removes spans from a place on that begin below an address.
func (c *codeSpans) clear(block, index int, below uint64) {
	for block < len(c.blocks) {
		b := c.blocks[block]
		last := index
		for last < len(b) && b[last].start < below {
			last++
		}
		if last == index {
			return
		}
		more := last == len(b)
		c.count -= last - index
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

// split makes two blocks of a full one and tells where a place in it is now. At
// the very end, where what grows upwards is added, a new block begins.
func (c *codeSpans) split(block, index int) (int, int) {
	half := codeBlock / 2
	if block == len(c.blocks)-1 && index == codeBlock {
		half = codeBlock - 1
	}
	upper := append(make([]codeSpan, 0, codeBlock), c.blocks[block][half:]...)
	c.blocks[block] = c.blocks[block][:half]
	c.blocks = slices.Insert(c.blocks, block+1, upper)
	if index < half {
		return block, index
	}
	return block + 1, index - half
}

// retain drops the spans that keep does not want and packs the others.
func (c *codeSpans) retain(keep func(*codeSpan) bool) {
	old := c.blocks
	*c = codeSpans{}
	for _, b := range old {
		for i := range b {
			if keep(&b[i]) {
				c.push(b[i])
			}
		}
	}
}

// push adds a span above all others.
func (c *codeSpans) push(s codeSpan) {
	last := len(c.blocks) - 1
	if last < 0 || len(c.blocks[last]) == codeBlock {
		c.blocks = append(c.blocks, make([]codeSpan, 0, codeBlock))
		last++
	}
	c.blocks[last] = append(c.blocks[last], s)
	c.count++
}

// remove drops the span that begins at an address, if there is one.
func (c *codeSpans) remove(start uint64) {
	if block, index := c.locate(start); block < len(c.blocks) && c.blocks[block][index].start == start {
		c.clear(block, index, start+1)
	}
}
