// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// lockedFile counts the blocks that are read for the first time by a goroutine that has locked the symbolizer.
type lockedFile struct {
	source
	s    *Symbolizer
	seen map[int64]bool
	cold *atomic.Int64
}

func (f lockedFile) ReadAt(buf []byte, off int64) (int, error) {
	for block := off / elfsym.PageSize; block <= (off+int64(len(buf))-1)/elfsym.PageSize; block++ {
		if !f.seen[block] && f.lockedByReader() {
			f.cold.Add(1)
		}
		f.seen[block] = true
	}
	return f.source.ReadAt(buf, off)
}

// lockedByReader reports whether the caller holds the lock: others, such as the lane that compares files, let go of it within a minute,
// however long they stand still.
func (f lockedFile) lockedByReader() bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f.s.mu.TryLock() {
			f.s.mu.Unlock()
			return false
		}
	}
	return true
}

// TestGoNamesAreReadWithoutTheLock names functions of this program. Nothing of the file is read for the first time while the symbolizer is
// locked: the disk may take long, and a drain waits for the lock.
func TestGoNamesAreReadWithoutTheLock(t *testing.T) {
	s := newSymbolizer(t, Config{MemoryBytes: 64 << 20, Names: free, LargeNames: free})
	a := openSpace(t, s, os.Getpid())
	pc := uint64(reflect.ValueOf(TestGoNamesAreReadWithoutTheLock).Pointer())
	r := a.find(pc)
	require.NotNil(t, r)
	s.mu.Lock()
	require.NoError(t, s.reopen(a, r))
	file, err := r.bin.file.(interface{ again() (source, error) }).again()
	require.NoError(t, err)
	cold := &atomic.Int64{}
	e := &entry{}
	e.frame.Late = new(atomic.Pointer[model.Frame])
	j := &nameJob{
		s: s, lane: &lane{n: s.names, charge: free, buf: make([]byte, elfsym.ScratchBytes), pages: elfsym.NewPages(0)}, ctx: t.Context(), bin: r.bin,
		file: &lockedFile{file, s, map[int64]bool{}, cold},
	}
	j.image.Src, j.image.Size = j.file, r.bin.size
	j.lane.files = 1
	e.frame.Address = pc + r.delta
	j.wanted = []wantedName{{a: a, at: r, frames: r.bin, e: e, pc: pc, addr: pc + r.delta}}
	s.closeFile(r.bin)
	s.mu.Unlock()
	j.run()
	require.True(t, r.bin.golang.loaded)
	require.NotNil(t, r.bin.golang.table)
	require.NotEmpty(t, settledName(&e.frame))
	require.Zero(t, cold.Load())
}
