// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
	"hash/maphash"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// maxVDSO bounds the image of a vDSO, which has a few pages.
const maxVDSO = 256 << 10

// memorySource is an image in memory.
type memorySource struct{ *bytes.Reader }

func (memorySource) Close() error { return nil }

// vdsoKey identifies a vDSO: the kernel maps the same image into all processes of one word size, and those of 32 bits have it below 4 GiB.
// Time namespaces only change the adjacent data pages.
func vdsoKey(e *mapEntry) fileKey {
	key := fileKey{dev: ^uint64(0), size: int64(e.end - e.start)}
	if e.end <= 1<<32 {
		key.ino = 1
	}
	return key
}

// acquireVDSO returns the vDSO, read once from memory.
func (s *Symbolizer) acquireVDSO(p *procDir, e *mapEntry) *binary {
	key := vdsoKey(e)
	s.mu.Lock()
	if b := s.binaries[key]; b != nil {
		s.ref(b)
		s.mu.Unlock()
		return b
	}
	s.mu.Unlock()
	if key.size > maxVDSO {
		return s.acquireNameless(e, reason.New(reason.Special, fmt.Errorf("reading [vdso] of %d bytes: %w", key.size, reason.ErrTooLarge)))
	}
	img, sure, err := p.vdso(e)
	if err != nil {
		return s.acquireNameless(e, reason.New(reason.Special, fmt.Errorf("reading [vdso] of process %d: %w", p.pid, err)))
	}
	if !sure { // it names only processes that have the same
		key.mtime = int64(maphash.Bytes(contentSeed, img) | 1) //nolint:gosec // a sum
	}
	fresh, err := newBinary(e.path, key, memorySource{bytes.NewReader(img)})
	if err != nil {
		return s.acquireNameless(e, reason.New(reason.Special, err))
	}
	fresh.sumAtOnce()
	fresh.pinned, fresh.sharable = true, fresh.sharable && sure
	return s.register(fresh)
}
