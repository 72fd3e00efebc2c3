// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArenaShare(t *testing.T) {
	for _, c := range []struct {
		wanted, mapBytes uint64
		cpus             int
		want             uint32
	}{
		{1 << 30, 1 << 30, 2, MaxArenaBytes},
		{1, 1 << 30, 2, MinArenaBytes},
		{1 << 30, 0, 512, MinArenaBytes},
		{1 << 30, 1 << 20, 4, 1 << 17},
		{100_000, 1 << 30, 4, 98304}, // whole pages
		{1 << 30, 1_000_000, 2, 249856},
	} {
		require.Equal(t, c.want, ArenaShare(c.wanted, c.mapBytes, c.cpus), "%+v", c)
	}
}
