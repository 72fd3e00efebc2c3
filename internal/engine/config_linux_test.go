// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// TestMemoryOfKinds holds that a kind that keeps no samples takes no room for them from others.
func TestMemoryOfKinds(t *testing.T) {
	const limit = 256 << 20
	for _, c := range []struct {
		config           Config
		tables, interval uint64
	}{
		{Config{Observe: []observe.Plan{&oncpu.Options{}}}, limit / 8, limit / 8},
		{Config{Observe: []observe.Plan{&oncpu.Options{}, &network.Plan{}}}, limit / 16, limit / 8},
		{Config{Observe: []observe.Plan{&oncpu.Options{}, &offcpu.Options{}, &memory.Options{}, &network.Plan{}}}, limit / 32, limit / 24},
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
	requests := []Policy{{Policy: policy.Policy{When: []policy.Rule{{Monitor: monitor.HTTPErrorRate}}}}}
	for name, tt := range map[string]struct {
		config     Config
		configured uint64 // how many there are
		each       uint64
	}{
		"network alone":              {Config{Observe: []observe.Plan{&network.Plan{}}}, 1, limit},
		"with tasks":                 {Config{Observe: []observe.Plan{&network.Plan{}}, OnDemand: true}, 1, limit / 2},
		"with tasks and monitors":    {Config{Observe: []observe.Plan{&network.Plan{}, &oncpu.Options{}}, Policies: requests, OnDemand: true}, 2, limit / 4},
		"monitors and tasks":         {Config{Policies: requests, OnDemand: true}, 1, limit / 2},
		"monitors that network does": {Config{Observe: []observe.Plan{&network.Plan{Requests: true, TLS: tls.Libraries}}, Policies: requests, OnDemand: true}, 1, limit / 2},
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
				s, err := e.demand.claim(&network.Plan{Common: observe.Common{ReportInterval: time.Duration(i)}})
				require.NoError(t, err)
				socketShare := e.sharedSocketMemory(s)
				require.Equal(t, uint64(limit/4>>i), socketShare)
				require.Equal(t, socketShare, e.sharedSocketMemory(s), "it is the same")
				total += socketShare
				claimed = append(claimed, s)
			}
			require.LessOrEqual(t, total, uint64(limit))
			for _, s := range claimed {
				e.demand.giveUp(s)
			}
			s, err := e.demand.claim(&oncpu.Options{})
			require.NoError(t, err)
			require.Zero(t, e.sharedSocketMemory(s))
			s, err = e.demand.claim(&network.Plan{})
			require.NoError(t, err)
			require.EqualValues(t, limit/4, e.sharedSocketMemory(s), "what ended gave back")
		})
	}
}
