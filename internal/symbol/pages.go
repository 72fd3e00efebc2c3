// SPDX-License-Identifier: Apache-2.0

package symbol

import "github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"

const (
	pageSize = 4 << 10
	maxPages = 256
	minPages = 8
)

// page is one block of one file.
type page struct {
	owner uint64 // serial of the binary, 0 when free
	index uint64
	len   int
	data  [pageSize]byte
}

// pageCache holds the blocks of files that names and Go's line tables were
// last read from, so that neighbouring addresses cost no system call. It is
// direct-mapped: two blocks that fall on one place evict each other.
type pageCache struct {
	slots []*page
	used  int
}

func newPageCache(memory int64) *pageCache {
	n := min(max(memory/32/pageSize, minPages), maxPages)
	return &pageCache{slots: make([]*page, n)}
}

// bytes is what the cache holds.
func (c *pageCache) bytes() int64 { return int64(c.used) * (pageSize + 32) }

// get returns the bytes of a binary from off to the end of its block.
func (c *pageCache) get(owner uint64, m elfimage.Image, off uint64) ([]byte, error) {
	index := off / pageSize
	slot := &c.slots[(index+owner*0x9e3779b97f4a7c15>>32)%uint64(len(c.slots))]
	p := *slot
	if p == nil {
		p = new(page)
		*slot = p
		c.used++
	}
	if p.owner != owner || p.index != index {
		p.owner = 0
		base := index * pageSize
		if base >= m.Size {
			return nil, elfimage.ErrTruncated
		}
		n := int(min(pageSize, m.Size-base))
		if err := m.Read(p.data[:n], base); err != nil {
			return nil, err
		}
		p.owner, p.index, p.len = owner, index, n
	}
	if off%pageSize >= uint64(p.len) {
		return nil, elfimage.ErrTruncated
	}
	return p.data[off%pageSize : p.len], nil
}

// forget drops the blocks of one binary.
func (c *pageCache) forget(owner uint64) {
	for _, p := range c.slots {
		if p != nil && p.owner == owner {
			p.owner = 0
		}
	}
}

// reader reads one binary through the cache.
type reader struct {
	cache *pageCache
	owner uint64
	image elfimage.Image
}

// Block gives the bytes from off to the end of their block in the cache.
func (r reader) Block(off uint64) ([]byte, error) { return r.cache.get(r.owner, r.image, off) }
