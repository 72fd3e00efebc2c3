// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// ledger is a share of memory.
type ledger struct{ held, peak, limit int64 }

var errShare = errors.New("more than the share")

func (l *ledger) reserve(bytes int64) error {
	if l.held+bytes > l.limit && bytes > 0 {
		return errShare
	}
	l.held += bytes
	l.peak = max(l.peak, l.held)
	return nil
}

// TestMemoryOfBuild builds the table of a binary of 100 MB. What it counts covers the heap's growth, its refusal ends the work early, and what
// remains counted is the table.
func TestMemoryOfBuild(t *testing.T) {
	file, functions := largeBinary()
	l := &ledger{limit: 1 << 40}
	var before, now runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	runtime.ReadMemStats(&before)
	var grown int64
	sampled := func() bool { // thousands of functions apart
		runtime.GC() // one in the background may come late
		runtime.ReadMemStats(&now)
		grown = max(grown, int64(now.HeapAlloc)-int64(before.HeapAlloc))
		return false
	}
	table, err := Build(imageOf(file), Limits{Reserve: l.reserve, Stop: sampled})
	require.NoError(t, err)
	require.Equal(t, functions, table.Functions)
	require.Equal(t, table.Bytes(), l.held)
	t.Logf("%d functions, a table of %d KiB: %d KiB counted at most, the heap grew by %d KiB", functions, table.Bytes()>>10, l.peak>>10, grown>>10)
	require.Greater(t, l.peak, table.Bytes())
	require.Less(t, grown, l.peak+l.peak/4, "there is what the test holds, too")

	for _, part := range []int64{100, 10, 2} {
		small := &ledger{limit: l.peak / part}
		table, err = Build(imageOf(file), Limits{Reserve: small.reserve})
		require.ErrorIs(t, err, errShare)
		require.Nil(t, table)
		require.Zero(t, small.held, "all is given back")
		require.LessOrEqual(t, small.peak, small.limit)
	}
}
