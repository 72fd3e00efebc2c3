// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// TestFailedPassIsCountedOnce checks that a file is not given up as long as some addresses of each batch are found, and that missing ones are
// counted once.
func TestFailedPassIsCountedOnce(t *testing.T) {
	s := assemble(Config{MemoryBytes: 8 << 20})
	b := &binary{path: "many.so"}
	for range 2 * maxFailedPasses {
		j := &nameJob{s: s, bin: b, passed: true, errSome: reason.ErrTooLarge}
		j.golang.loaded = true
		j.symbols.table = &elfsym.Table{IsPartial: true}
		j.install()
	}
	require.Equal(t, reason.Named, b.cause)
	require.False(t, b.knows(5), "another pass may succeed")
	require.EqualValues(t, 1, s.count.errors[reason.TooLarge])
}

// TestFailedPassesAreBounded checks that a file whose passes fail again and again is not read for each new frame.
func TestFailedPassesAreBounded(t *testing.T) {
	s := assemble(Config{MemoryBytes: 8 << 20})
	b := &binary{path: "many.so"}
	for range maxFailedPasses {
		require.False(t, b.knows(5), "another pass may succeed")
		j := &nameJob{s: s, bin: b, passed: true, errSyms: reason.ErrTooLarge}
		j.golang.loaded = true
		j.install()
	}
	require.True(t, b.knows(5), "no further pass")
	require.NotEqual(t, reason.Named, b.cause)
	require.Zero(t, s.tableBytes)
}
