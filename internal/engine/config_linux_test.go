// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
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

// TestMemoryOfSockets holds that observations that are about sockets have no more memory together than there is for them, however many run,
// and that one alone has more than the last of many.
func TestMemoryOfSockets(t *testing.T) {
	const limit = 256 << 20
	requests := []Policy{{Policy: policy.Policy{When: []policy.Rule{{Monitor: policy.HTTPErrorRate}}}}}
	for name, tt := range map[string]struct {
		config     Config
		configured uint64 // how many there are
		each       uint64
	}{
		"network alone":              {Config{Network: &Network{}}, 1, limit},
		"beside tasks":               {Config{Network: &Network{}, OnDemand: true}, 1, limit / 2},
		"beside tasks and monitors":  {Config{Network: &Network{}, OnCPU: &OnCPU{}, Policies: requests, OnDemand: true}, 2, limit / 4},
		"monitors and tasks":         {Config{Policies: requests, OnDemand: true}, 1, limit / 2},
		"monitors that network does": {Config{Network: &Network{Requests: true, TLS: TLSLibraries}, Policies: requests, OnDemand: true}, 1, limit / 2},
	} {
		t.Run(name, func(t *testing.T) {
			tt.config.MemoryBytes = limit
			e := &Engine{config: tt.config}
			require.Equal(t, tt.each, e.socketMemory())
			if !tt.config.OnDemand {
				return
			}
			total := tt.configured * e.socketMemory()
			var claimed []*shared
			for i := range TaskObservations {
				s, err := e.demand.claim(&Network{ReportInterval: time.Duration(i)})
				require.NoError(t, err)
				lent := e.socketMemoryLent(s)
				require.Equal(t, uint64(limit/4>>i), lent)
				require.Equal(t, lent, e.socketMemoryLent(s), "it is the same")
				total += lent
				claimed = append(claimed, s)
			}
			require.LessOrEqual(t, total, uint64(limit))
			for _, s := range claimed {
				e.demand.giveUp(s)
			}
			s, err := e.demand.claim(&OnCPU{})
			require.NoError(t, err)
			require.Zero(t, e.socketMemoryLent(s))
			s, err = e.demand.claim(&Network{})
			require.NoError(t, err)
			require.EqualValues(t, limit/4, e.socketMemoryLent(s), "what ended gave back")
		})
	}
}
