// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"io/fs"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
)

// storeEvery is after how many new addresses what is known of a binary is written to the cache, beside when nobody runs it any more.
const storeEvery = 4096

// cacheKey names a binary in the cache on disk, empty for one that cannot be told from others: a build id alone is what a process says of
// itself, hence the hash of the file's head and tail.
func (b *binary) cacheKey() string {
	if b.id.GNU == "" || b.id.HTLHash == "" {
		return ""
	}
	return b.id.GNU + "-" + b.id.HTLHash
}

// remembered gives what the cache on disk knows of a binary; nil when there is no cache or the binary has no place in it.
func (s *Symbolizer) remembered(b *binary) *debuginfo.Known {
	d := &b.debug
	if d.known != nil || s.cache == nil || b.cacheKey() == "" {
		return d.known
	}
	known, err := s.cache.Load(b.cacheKey())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.badDebug(b, err)
		}
		known = debuginfo.NewKnown()
	}
	s.keep(b, func() { d.known = known })
	return known
}

// remember notes the lines of an address for the cache on disk.
func (s *Symbolizer) remember(b *binary, addr uint64, lines []debuginfo.Line) {
	known := b.debug.known
	if known == nil {
		return
	}
	before := known.Bytes()
	known.Put(addr, lines)
	s.tableBytes += known.Bytes() - before
	if known.Changed() >= storeEvery {
		s.store(b)
	}
}

// store writes what is new of a binary to the cache on disk.
func (s *Symbolizer) store(b *binary) {
	known := b.debug.known
	if known == nil || known.Changed() == 0 {
		return
	}
	if err := s.cache.Store(b.cacheKey(), known); err != nil {
		s.badDebug(b, err)
	}
}
