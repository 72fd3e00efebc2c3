// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestUnfinished checks which of the runs that Close ends can be requested again: those that policies started, for the rest of their time
// and without another trigger event. Not those that are over, nor those that wait for their turn, whose failure is reported, nor those that
// others requested.
func TestUnfinished(t *testing.T) {
	cause := []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93}}
	var left []Request
	in(t, 4, nil, func(h *harness) {
		both := asks(1, "on_cpu", "network", "off_cpu")
		both.Causes = cause
		both.Runs[1].Duration, both.Runs[1].Instance, both.Runs[1].Processes = 5*time.Minute, true, []*model.Process{processOf(1), processOf(2)}
		both.Runs[2].Duration = time.Second
		h.Request(both)
		h.after(10 * time.Second)
		h.Request(everybody(40 * time.Second))
		h.Request(holding(3, nil)) // goes on after that
		starting := asks(4, "off_cpu")
		api := asks(5, "off_cpu")
		api.By = "api"
		h.Request(api)
		h.starter.takes = time.Second
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(starting) })
		h.after(time.Millisecond)
		waits := asks(6, "off_cpu")
		answered := answers(&waits)
		require.Equal(t, Queued, one(t, h.Request(waits)).State)
		require.Empty(t, h.Unfinished())
		h.Close()
		asked.Wait()
		require.Len(t, answered.all(), 1)
		left = h.Unfinished()
	})
	type rest struct {
		kind     string
		pid      uint32
		duration time.Duration
		instance bool
	}
	var got []rest
	for _, r := range left {
		require.True(t, r.GoesOn)
		require.Equal(t, "policy:slow", r.By)
		for _, run := range r.Runs {
			require.NotEmpty(t, run.Processes)
			got = append(got, rest{run.Kind, r.Processes[0].ID.PID, run.Duration.Round(2 * time.Second), run.Instance})
		}
	}
	slices.SortFunc(got, func(a, b rest) int { return int(a.duration - b.duration) })
	require.Equal(t, []rest{
		{"on_cpu", 1, 50 * time.Second, false}, {"off_cpu", 4, time.Minute, false}, {"network", 1, 290 * time.Second, true}, {"on_cpu", 3, 600 * time.Second, false},
	}, got)
	require.Len(t, left, 3, "a task's runs are one task again")

	in(t, 4, nil, func(h *harness) {
		for _, r := range left {
			require.Equal(t, Started, h.Request(r)[0].State)
		}
		require.NotContains(t, h.events(), TriggeredEvent)
		for _, r := range h.Tasks() {
			require.True(t, r.GoesOn)
		}
		i := slices.IndexFunc(h.Tasks(), func(r Record) bool { return r.Process.PID == 1 })
		require.Equal(t, cause, h.Tasks()[i].Causes)
	})
}
