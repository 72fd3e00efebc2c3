// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBudget(t *testing.T) {
	var b budget
	now := time.Unix(1000, 0)
	for range prefetchBurst {
		require.True(t, b.take(now), "as many at once")
	}
	require.False(t, b.take(now))
	require.False(t, b.take(now.Add(90*time.Millisecond)), "10 a second")
	require.True(t, b.take(now.Add(100*time.Millisecond)))
	require.False(t, b.take(now.Add(100*time.Millisecond)))
	now = now.Add(time.Hour)
	for range prefetchBurst {
		require.True(t, b.take(now), "no more than at the begin")
	}
	require.False(t, b.take(now))
}
