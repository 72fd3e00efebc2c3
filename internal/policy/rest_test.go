// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// TestSilenceOfWhatRanBefore holds that a policy is silent for what it has started before the watch began, whenever the process is met.
func TestSilenceOfWhatRanBefore(t *testing.T) {
	for _, met := range []bool{false, true} {
		h := newHost(t, Policy{When: []Rule{{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}}, Silence: time.Minute})
		p, other := process(7), process(8)
		if met {
			h.watch.Add(p, []int{0})
		}
		h.watch.RestoreSilence("p", p.ID, h.at-50*time.Second)
		h.watch.RestoreSilence("p", p.ID, h.at-70*time.Second) // an earlier one
		h.watch.RestoreSilence("another", p.ID, h.at)
		later := other.ID
		later.StartTicks = 100 * uint64(h.at/time.Second)
		h.watch.RestoreSilence("p", later, h.at-time.Second) // as before the host was started again: it has not begun then
		if !met {
			h.watch.Add(p, []int{0})
		}
		h.watch.Add(other, []int{0})
		fired := h.next(p.ID, 0, 1)
		for range 8 {
			require.Empty(t, fired, "silence")
			fired = h.next(p.ID, 0, 1)
		}
		require.Empty(t, fired)
		fired = h.next(p.ID, 0, 1)
		require.Len(t, fired, 1, "a minute after it began")
		require.Same(t, p, fired[0].Process)
		h.used[later] = Usage{Threads: 1}
		started := process(8)
		started.ID = later
		h.watch.Add(started, []int{0})
		require.Len(t, h.tick(time.Second), 1, "it is another one")
	}
}

// TestSilenceIsKeptWhileATriggerWaits holds that what was remembered late is not lost by a trigger that could not start anything.
func TestSilenceIsKeptWhileATriggerWaits(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}}, Silence: time.Minute})
	p := process(7)
	h.watch.Add(p, []int{0})
	require.Len(t, h.next(p.ID, 0, 1), 1)
	h.watch.RestoreSilence("p", p.ID, h.at-50*time.Second)
	h.watch.Failed("p", p.ID, h.at, false)
	for range 9 {
		require.Empty(t, h.next(p.ID, 0, 1))
	}
	require.Len(t, h.next(p.ID, 0, 1), 1)
}

// TestWhoIsNotMetIsForgotten holds that what ran for processes that are there no more leaves nothing.
func TestWhoIsNotMetIsForgotten(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}}, Silence: time.Hour})
	for pid := range uint32(100) {
		h.watch.RestoreSilence("p", process(pid).ID, h.at)
	}
	require.Len(t, h.watch.inherited, 100)
	for range inheritFor + 2 {
		require.Empty(t, h.tick(time.Second))
	}
	require.Empty(t, h.watch.inherited)
}
