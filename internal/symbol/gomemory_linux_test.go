// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
)

// TestGoTableFitsLater checks that a Go function table is read once it fits into memory, and that frames without a name until then are
// counted as over the budget.
func TestGoTableFitsLater(t *testing.T) {
	p := start(t, toolchain.CompileGo(t, programGo, "-ldflags=-s -w"))
	s, clock := newSymbolizer(t, Config{MemoryBytes: 8 << 20, Names: free, LargeNames: free}), &movedClock{now: time.Now()}
	s.mu.Lock()
	s.now = clock.read
	s.mu.Unlock()
	a := openSpace(t, s, p.pid())
	alpha := p.functions["main.alpha"]
	look := func() string {
		f := a.Frames(nil, []uint64{alpha})[0]
		require.True(t, s.AwaitLines(time.Minute))
		return settledName(f)
	}
	s.mu.Lock()
	s.reserved = s.memory // of a table that is read at the same time
	s.mu.Unlock()
	require.Empty(t, look())
	require.Positive(t, s.Stats().Unnamed["over_budget"], "%v", s.Stats().Unnamed)
	require.NoError(t, s.Stats().LastError)

	s.mu.Lock()
	s.reserved = 0
	s.mu.Unlock()
	clock.move(idleTable)
	look() // has the table read
	require.Equal(t, "main.alpha", look())
}
