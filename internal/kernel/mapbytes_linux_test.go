// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
)

func TestEntryBytes(t *testing.T) {
	require.EqualValues(t, 65536, entryBytes(ebpf.RingBuf, 65536, 0))
	require.EqualValues(t, 1200, entryBytes(ebpf.Hash, 100, 12))
}

// TestMapBytesOfEveryKernel checks that the memory of a map is known on every kernel.
func TestMapBytesOfEveryKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making maps needs root")
	}
	maps := map[string]*ebpf.Map{}
	for name, spec := range map[string]*ebpf.MapSpec{
		"ring":  {Type: ebpf.RingBuf, MaxEntries: 1 << 16},
		"array": {Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 10, MaxEntries: 64},
	} {
		m, err := ebpf.NewMap(spec)
		require.NoError(t, err)
		defer m.Close()
		maps[name] = m
		require.InEpsilon(t, 1<<16, MapBytes(map[string]*ebpf.Map{name: m}, nil), 0.5, name)
	}
	require.Greater(t, MapBytes(maps, nil), MapBytes(maps, map[string]*ebpf.Map{"ring": nil}))
	require.Zero(t, MapBytes(maps, maps))
}
