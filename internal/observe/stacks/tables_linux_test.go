// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// TestHeadsAreCounted checks that the counts in the heads of tables are summed, and each is reported with its own reason.
func TestHeadsAreCounted(t *testing.T) {
	counted := &Tables{probe: "on_cpu"}
	require.Zero(t, counted.FirstSample())
	for _, head := range []bindings.OnCPUStackTable{
		{Seen: 100, LostFull: 1, LostBusy: 2, Unmerged: 3, FirstNs: 70},
		{}, // of a CPU on which nothing was seen
		{Seen: 1000, LostFull: 10, LostBusy: 20, Unmerged: 30, FirstNs: 60},
		{Seen: 1, FirstNs: 80},
	} {
		one := tableOf(0)
		*one.head() = head
		counted.count(one.head())
	}
	counted.noTable.Store(7)
	require.Equal(t, uint64(33), counted.Unmerged())
	require.Equal(t, uint64(1101+22+7), counted.Samples(), "those of which nothing could be kept among them")
	require.Equal(t, uint64(60), counted.FirstSample(), "the earliest of all CPUs")
	require.Equal(t, []observe.Loss{
		{Probe: "on_cpu", Reason: "map_full", Count: 11},
		{Probe: "on_cpu", Reason: "busy", Count: 22},
		{Probe: "on_cpu", Reason: "no_table", Count: 7},
	}, counted.Losses())
}
