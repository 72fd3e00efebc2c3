// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestRegions checks this process: its own code is at the address of the mapping, and its file can be read.
func TestRegions(t *testing.T) {
	s := newSymbolizer(t, Config{})
	space, err := s.Open(model.ProcessID{PID: uint32(os.Getpid())})
	require.NoError(t, err)
	defer space.Close()
	exe, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	seen := map[string]int{}
	for _, r := range space.Regions() {
		require.Less(t, r.Start, r.End)
		image, closeFile, err := space.OpenRegion(r)
		require.NoError(t, err, "%s", r.entry.path)
		file, err := elfimage.Parse(image)
		require.NoError(t, err)
		covered := false
		for _, p := range file.Progs {
			last := r.End - r.Bias
			if r.entry.path == "[vdso]" {
				last = r.Start - r.Bias + 1 // its mapping is longer than its segment on some kernels
			}
			covered = covered || r.Start-r.Bias >= p.Vaddr&^4095 && last <= (p.Vaddr+p.Memsz+4095)&^4095
		}
		require.True(t, covered, "%s: %#x is in a segment", r.entry.path, r.Start-r.Bias)
		if r.entry.path == exe {
			info, err := os.Stat(exe)
			require.NoError(t, err)
			require.Equal(t, uint64(info.Size()), image.Size)
		}
		require.NoError(t, closeFile())
		seen[r.entry.path]++
		require.NotEmpty(t, r.Content)
	}
	require.Positive(t, seen[exe])
	require.Equal(t, 1, seen["[vdso]"])
}
