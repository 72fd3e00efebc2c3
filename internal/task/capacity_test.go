// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// options are those of an observation in tests; a pointer, as they are.
type options struct{ period int }

// asksWith is a request for on_cpu of one process.
func asksWith(pid uint32, period int) Request {
	r := asks(pid, "on_cpu")
	r.Runs[0].Options = &options{period}
	r.Causes = []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93}}
	return r
}

// TestDifferentObservationsAreBounded checks that an observation that differs from all running ones waits when no more may differ, that an
// event reports this, and that it does not hold up a task that shares a running observation.
func TestDifferentObservationsAreBounded(t *testing.T) {
	with(t, Config{Running: 16, Different: 2}, func(h *harness) {
		require.Equal(t, Started, one(t, h.Request(asksWith(1, 1))).State)
		second := asksWith(2, 2)
		second.Duration = 2 * time.Minute
		require.Equal(t, Started, one(t, h.Request(second)).State)
		h.events()
		third := one(t, h.Request(asksWith(3, 3)))
		require.NoError(t, third.Err)
		require.Equal(t, Queued, third.State)
		triggered := h.emitted[0].Logs[0]
		require.Equal(t, TriggeredEvent, triggered.Event)
		require.Contains(t, triggered.Attributes, model.Text("ebpf.task.state", "queued"))
		require.Equal(t, []string{TriggeredEvent}, h.events())
		require.Equal(t, 1, h.logs.FilterFieldKey("error").FilterMessage("Not all tasks run at once that are asked for").Len())
		require.Contains(t, h.logs.All()[0].ContextMap()["error"], "2 observations with different options run already")

		h.after(10 * time.Second)
		shares := asksWith(4, 2)
		shares.Duration = time.Minute
		require.Equal(t, Started, one(t, h.Request(shares)).State, "the same as the second's")
		require.Equal(t, Stats{Running: 3, Queued: 1}, h.Stats())
		h.events()

		h.after(50*time.Second + time.Millisecond)
		require.Equal(t, Stats{Running: 3}, h.Stats(), "the third runs in place of the first")
		var started model.Log
		for _, logs := range h.emitted {
			if logs.Logs[0].Event == StartedEvent {
				started = logs.Logs[0]
			}
		}
		wait := started.Attributes[len(started.Attributes)-1]
		require.Equal(t, "ebpf.task.wait", wait.Key)
		require.InDelta(t, 60, wait.Value.Float(), 0.1)
		require.Equal(t, []string{FinishedEvent + " duration", StartedEvent}, h.events())
	})
}

// TestNoWait checks that what begins when it was to does not say that it has waited.
func TestNoWait(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		r := asks(1, "on_cpu")
		r.Start = time.Now().Add(time.Hour)
		h.Request(r)
		h.after(time.Hour + time.Second)
		require.Equal(t, StartedEvent, h.emitted[0].Logs[0].Event)
		for _, a := range h.emitted[0].Logs[0].Attributes {
			require.NotEqual(t, "ebpf.task.wait", a.Key)
		}
	})
}

// TestTurnsOfWhatDiffers checks that who waits for room has it before who comes later, though others passed him by meanwhile.
func TestTurnsOfWhatDiffers(t *testing.T) {
	with(t, Config{Running: 16, Different: 1}, func(h *harness) {
		first := one(t, h.Request(asksWith(1, 1))).TaskID
		var waits []string
		for pid := range uint32(3) {
			waits = append(waits, one(t, h.Request(asksWith(pid+2, 2+int(pid)))).TaskID)
		}
		require.Equal(t, Stats{Running: 1, Queued: 3}, h.Stats())
		require.NoError(t, h.Manager.Stop(first))
		h.after(time.Millisecond)
		require.Equal(t, Stats{Running: 1, Queued: 2}, h.Stats())
		require.Equal(t, Started, h.record(waits[0]).Runs[0].State)
		h.after(time.Minute + time.Millisecond)
		require.Equal(t, Started, h.record(waits[1]).Runs[0].State)
		require.Equal(t, Queued, one(t, h.Request(asksWith(9, 9))).State)
		h.after(time.Minute + time.Millisecond)
		require.Equal(t, Started, h.record(waits[2]).Runs[0].State)
		require.Equal(t, Stats{Running: 1, Queued: 1}, h.Stats())
	})
}

// TestMoreThanMayRun checks that a task that could never run is refused.
func TestMoreThanMayRun(t *testing.T) {
	with(t, Config{Running: 16, Different: 1}, func(h *harness) {
		outcomes := h.Request(asks(1, "on_cpu", "off_cpu"))
		require.EqualError(t, outcomes[0].Err, "2 observations are asked for: 1 run at once")
		require.Equal(t, Stats{}, h.Stats())
	})
}
