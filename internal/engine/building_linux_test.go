// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// TestTableWithinItsShare builds the table of this program, whose functions alone take megabytes. Where it exceeds the share of the queue of small
// binaries, the other queue builds it; where it exceeds that one's, too, that is counted once and its stacks are unwound by frame pointers.
func TestTableWithinItsShare(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	s, err := symbol.New(symbol.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	space, err := s.Open(model.ProcessID{PID: uint32(os.Getpid())})
	require.NoError(t, err)
	defer space.Close()
	w := wanted{key: observe.SubjectKey{PID: uint32(os.Getpid())}, subject: &subject{}}
	places := map[observe.SubjectKey]place{}
	for _, r := range space.Regions() {
		if r.Path() == self {
			places[w.key] = place{space, r, w}
		}
	}
	require.Len(t, places, 1)

	u, err := newUnwinding(8<<20, zap.NewNop(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, u.store.Close()) }()
	require.Empty(t, u.acquireAny(&u.small, places))
	require.Zero(t, u.failed.Load())
	moved := u.take(&u.large)
	require.Len(t, moved, 1, "it waits in the other queue")
	made := u.acquireAny(&u.large, moved)
	require.Len(t, made, 1, "it is not built again for each process")
	require.Zero(t, u.store.Stats().TableBytes)
	require.EqualValues(t, 1, u.failed.Load())
	require.Zero(t, u.buildingBytes(), "all is given back")

	enough, err := newUnwinding(256<<20, zap.NewNop(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, enough.store.Close()) }()
	require.Len(t, enough.acquireAny(&enough.large, places), 1)
	require.Positive(t, enough.store.Stats().TableBytes)
	require.Zero(t, enough.failed.Load())
	require.Zero(t, enough.buildingBytes(), "the table is in the kernel's maps")
}
