// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"
)

// sparse is a file of zeros; it counts what is read.
type sparse struct{ read uint64 }

func (s *sparse) ReadAt(b []byte, _ int64) (int, error) {
	s.read += uint64(len(b))
	return len(b), nil
}

// TestSearchForPclntabIsBounded searches a stripped file of many segments that are the same gigabyte.
func TestSearchForPclntabIsBounded(t *testing.T) {
	src := &sparse{}
	f := &File{Image: Image{Src: src, Size: 1 << 40}, Is64: true}
	for range 200 {
		f.Progs = append(f.Progs, Prog{Type: elf.PT_LOAD, Flags: elf.PF_R, Filesz: 1 << 30, Memsz: 1 << 30})
	}
	_, _, ok := FindPclntab(f, nil, make([]byte, 1<<20))
	require.False(t, ok)
	require.EqualValues(t, maxPclntabSearch, src.read)
}
