// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSymbolPressure(t *testing.T) {
	p := symbolPressure{memoryBytes: 64 << 20}
	at := time.Unix(1000, 0)
	next := func(c symbolCounts) error {
		at = at.Add(pressureWindow)
		return p.observe(at, c)
	}
	require.NoError(t, p.observe(at, symbolCounts{rebuilt: 50, passes: 50, late: 5000, frames: 5000}), "what was before the first window")
	require.NoError(t, next(symbolCounts{rebuilt: 51, passes: 50, late: 5050, frames: 50_000}), "some of a start")

	err := next(symbolCounts{rebuilt: 52, passes: 51, late: 5050, frames: 90_000})
	require.ErrorContains(t, err, "limits::memory_mib, 64 MiB: 1 were built again and 1 passes")
	require.NotContains(t, err.Error(), "cpu_percent")
	require.ErrorContains(t, p.observe(at.Add(time.Second), symbolCounts{rebuilt: 99}), "memory_mib", "as it was until the window ends")

	err = next(symbolCounts{rebuilt: 52, passes: 51, late: 6050, frames: 190_000})
	require.ErrorContains(t, err, "1000 of 100000 frames")
	require.NotContains(t, err.Error(), "memory_mib")
	calm := symbolCounts{rebuilt: 52, passes: 51, late: 7049, frames: 290_000}
	require.Error(t, next(calm), "99 in 10,000 are few, but it was otherwise just now")
	require.NoError(t, next(calm))
	require.NoError(t, next(calm))
}
