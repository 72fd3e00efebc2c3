// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	PageSize = 4 << 10
	maxPages = 256
	minPages = 8
)

// page is one block of one file.
type page struct {
	owner uint64 // serial of the binary, 0 when free
	index uint64
	len   int
	data  [PageSize]byte
}

// Pages caches the blocks of files that names and Go's line tables were last read from, so that neighbouring addresses cost no system
// call. It is direct-mapped: two blocks with the same index evict each other.
type Pages struct {
	slots []*page
	used  int
	spare *page // to read into
}

func NewPages(memory int64) *Pages {
	n := min(max(memory/32/PageSize, minPages), maxPages)
	return &Pages{slots: make([]*page, n)}
}

// Bytes is the memory of the cache.
func (c *Pages) Bytes() int64 { return int64(c.used) * (PageSize + 32) }

// get returns the bytes of a binary from off to the end of its block.
func (c *Pages) get(r Reader, off uint64) ([]byte, error) {
	index := off / PageSize
	slot := &c.slots[(index+r.Owner*0x9e3779b97f4a7c15>>32)%uint64(len(c.slots))]
	p := *slot
	if p == nil || p.owner != r.Owner || p.index != index {
		var err error
		if p, err = c.read(r, index); err != nil {
			return nil, err
		}
		if old := *slot; old == nil {
			c.used++
		} else {
			c.spare = old
		}
		*slot = p
	}
	if off%PageSize >= uint64(p.len) {
		return nil, elfimage.ErrTruncated
	}
	return p.data[off%PageSize : p.len], nil
}

// read reads a block of a file. The cache may be used by others meanwhile.
func (c *Pages) read(r Reader, index uint64) (*page, error) {
	base := index * PageSize
	if base >= r.Image.Size {
		return nil, elfimage.ErrTruncated
	}
	p := c.spare
	if c.spare = nil; p == nil {
		p = new(page)
	}
	p.len = int(min(PageSize, r.Image.Size-base))
	if r.Held != nil {
		r.Held.Unlock()
	}
	err := r.Image.Read(p.data[:p.len], base)
	if r.Held != nil {
		r.Held.Lock()
	}
	if err != nil {
		c.spare = p
		return nil, err
	}
	p.owner, p.index = r.Owner, index
	return p, nil
}

// Forget drops the blocks of one binary.
func (c *Pages) Forget(owner uint64) {
	for _, p := range c.slots {
		if p != nil && p.owner == owner {
			p.owner = 0
		}
	}
}

// Reader reads one binary through the cache.
type Reader struct {
	Cache *Pages
	Owner uint64
	Image elfimage.Image
	// Held is a lock that the caller holds: it is released while the file is read. nil: there is none.
	Held sync.Locker
}

// Block returns the bytes from off to the end of their block in the cache.
func (r Reader) Block(off uint64) ([]byte, error) { return r.Cache.get(r, off) }
