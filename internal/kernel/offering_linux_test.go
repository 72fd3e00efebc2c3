// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestOffering checks that programs find maps when Put returns, more of them than may wait at a time.
func TestOffering(t *testing.T) { offer(t) }

// TestMeasureOffering checks that it takes less time than waiting for each.
func TestMeasureOffering(t *testing.T) {
	if guest.Running() {
		t.Skip("polling takes long there")
	}
	concurrently, each := offer(t)
	require.Less(t, concurrently, each)
}

// offer returns how long it took to offer maps, and the same with a wait for each.
func offer(t *testing.T) (concurrently, each time.Duration) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("creating BPF maps needs root")
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Logf("maps may be charged to RLIMIT_MEMLOCK: %v", err)
	}
	const maps = 3 * offeringWaits
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: maps, InnerMap: inner})
	require.NoError(t, err)
	defer func() { require.NoError(t, outer.Close()) }()
	offering := NewOffering()
	defer offering.Wait()
	var offered [maps]*ebpf.Map
	for i := range offered {
		offered[i], err = ebpf.NewMap(inner)
		require.NoError(t, err)
		defer func() { require.NoError(t, offered[i].Close()) }()
		require.NoError(t, offered[i].Put(uint32(0), uint64(i)))
	}
	began := time.Now()
	for i, m := range offered {
		require.NoError(t, offering.Put(outer, uint32(i), m))
		var found *ebpf.Map
		require.NoError(t, outer.Lookup(uint32(i), &found))
		var value uint64
		require.NoError(t, found.Lookup(uint32(0), &value))
		require.EqualValues(t, i, value)
		require.NoError(t, found.Close())
	}
	concurrently = time.Since(began)
	offering.Wait()
	began = time.Now()
	for i, m := range offered {
		require.NoError(t, outer.Put(uint32(i), m))
	}
	each = time.Since(began)
	require.ErrorIs(t, offering.Put(outer, maps, offered[0]), unix.E2BIG, "no such index")
	return concurrently, each
}
