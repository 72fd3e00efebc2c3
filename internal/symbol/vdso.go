// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
)

// maxVDSO bounds the image of a vDSO, which has a few pages.
const maxVDSO = 256 << 10

// memorySource is an image in memory.
type memorySource struct{ *bytes.Reader }

func (memorySource) Close() error { return nil }

// vdsoKey identifies a vDSO: the kernel maps the same image into all processes
// of one word size, and those of 32 bits have it below 4 GiB. Time namespaces
// only change the data pages beside it.
func vdsoKey(e *mapEntry) fileKey {
	key := fileKey{dev: ^uint64(0), size: int64(e.end - e.start)}
	if e.end <= 1<<32 {
		key.ino = 1
	}
	return key
}

// acquireVDSO gives the kernel's own library, read once from memory.
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
		return s.acquireNameless(e, &reasonError{special, fmt.Errorf("reading [vdso] of %d bytes: %w", key.size, errTooLarge)})
	}
	img, err := p.vdso(e)
	if err != nil {
		return s.acquireNameless(e, &reasonError{special, fmt.Errorf("reading [vdso] of process %d: %w", p.pid, err)})
	}
	fresh, err := newBinary(e.path, key, memorySource{bytes.NewReader(img)})
	if err != nil {
		return s.acquireNameless(e, &reasonError{special, err})
	}
	fresh.pinned = true
	return s.register(fresh)
}
