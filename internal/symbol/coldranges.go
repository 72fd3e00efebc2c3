// SPDX-License-Identifier: Apache-2.0

package symbol

// dropBehind is the range that the kernel is asked to drop after a chunk: more than the largest folio that it keeps.
const dropBehind = 8 << 20

// coldRanges are the chunks of a file that were not in the page cache before they were read. Those that were stay there, since programs use
// them.
type coldRanges struct {
	file   interface{ Uncache(off, n int64) }
	chunks []contentChunk
	cold   []bool
	from   uint64 // beginning of the current range of cold chunks
	to     uint64
	all    bool // none was cached
}

// coldOf finds out which chunks are in the page cache.
func coldOf(src source, chunks []contentChunk) coldRanges {
	file, ok := src.(interface {
		Uncache(off, n int64)
		isCached(off, n uint64) bool
	})
	if !ok {
		return coldRanges{}
	}
	c := coldRanges{file: file, chunks: chunks, cold: make([]bool, len(chunks)), all: true}
	for i, k := range chunks {
		c.cold[i] = k.size > 0 && !file.isCached(k.off, k.size)
		c.all = c.all && (c.cold[i] || k.size < sumChunk) // headers, which were read already, are next to small ones
	}
	return c
}

// passed has the kernel drop the chunk that was read, if it was cold.
func (c *coldRanges) passed() {
	if c.file == nil || len(c.chunks) == 0 {
		return
	}
	k, cold := c.chunks[0], c.cold[0]
	c.chunks, c.cold = c.chunks[1:], c.cold[1:]
	if !cold {
		return
	}
	if k.off != c.to {
		c.from = k.off
	}
	c.to = k.off + k.size
	from := max(c.from, c.to-min(c.to, dropBehind))
	c.file.Uncache(int64(from), int64(c.to-from)) //nolint:gosec // within a file
}

// drop has the kernel drop what it read ahead, if the file was not used before.
func (c *coldRanges) drop() {
	if c.file != nil && c.all {
		c.file.Uncache(0, 0)
	}
}
