// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryOfKinds holds that a kind that keeps no samples takes no room for them from others.
func TestMemoryOfKinds(t *testing.T) {
	const limit = 256 << 20
	for _, c := range []struct {
		config           Config
		tables, interval uint64
	}{
		{Config{OnCPU: &OnCPU{}}, limit / 8, limit / 8},
		{Config{OnCPU: &OnCPU{}, Network: &Network{}}, limit / 16, limit / 8},
		{Config{OnCPU: &OnCPU{}, OffCPU: &OffCPU{}, Memory: &Memory{}, Network: &Network{}}, limit / 32, limit / 24},
	} {
		c.config.MemoryBytes = limit
		e := &Engine{config: c.config}
		require.Equal(t, []uint64{c.tables, c.interval}, []uint64{e.tableShare(), e.intervalShare()})
	}
}
