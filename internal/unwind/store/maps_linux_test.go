// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package store

import (
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// TestKernel checks that programs find what is written in the maps at once, within the bound.
func TestKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creating BPF maps needs root")
	}
	const maxBytes = maxRules*ruleBytes + 8*chunkBytes
	k, err := New(maxBytes)
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Close()) }()
	began := time.Now()
	b, err := k.Acquire("a", func() (*unwind.Table, error) { return synthetic(3, 500), nil })
	require.NoError(t, err)
	p, err := k.NewSpace([]Mapping{{Start: 0x1000, End: 1 << 20, Binary: b}})
	require.NoError(t, err)
	t.Logf("a table of 500 pages in %s", time.Since(began))

	chunk, offset := p.Handle()>>16, p.Handle()&0xffff*8
	seen := k.content(t, chunk)
	require.EqualValues(t, 1, native.Uint32(seen[offset:]), "mappings of the list")
	m := seen[offset+8:]
	require.EqualValues(t, 0x1000, native.Uint64(m))
	page := k.content(t, uint32(native.Uint16(m[20:])))[native.Uint16(m[22:])*pageBytes:]
	row := native.Uint32(k.content(t, uint32(native.Uint16(page)))[int(native.Uint16(page[2:]))*rowBytes:])
	var rule [12 + 4]byte
	require.NoError(t, k.rules.Lookup(row&0xffff, &rule))
	require.EqualValues(t, 3, native.Uint32(rule[:]), "CFAOffset of the first row's rule")

	for i := range int32(20) {
		again, err := k.Acquire(string(rune('b'+i)), func() (*unwind.Table, error) { return synthetic(100+i, 500), nil })
		require.NoError(t, err)
		k.Release(again)
	}
	require.LessOrEqual(t, k.Stats().Bytes, uint64(maxBytes))
	require.Positive(t, k.Stats().Evicted)
	require.Equal(t, seen[offset:offset+32], k.content(t, chunk)[offset:offset+32], "the list stays")
}

// content reads a chunk as programs find it.
func (k *Kernel) content(t *testing.T, id uint32) []byte {
	t.Helper()
	var chunk *ebpf.Map
	require.NoError(t, k.chunks.Lookup(id, &chunk))
	defer func() { require.NoError(t, chunk.Close()) }()
	out := make([]byte, chunkBytes)
	require.NoError(t, chunk.Lookup(uint32(0), &out))
	return out
}
