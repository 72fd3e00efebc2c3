// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// everybody is a request of the configuration for on_cpu of all processes in scope.
func everybody(duration time.Duration) Request {
	return Request{By: "config", Name: "all", Duration: duration, Runs: []Run{{Kind: "on_cpu"}}}
}

// holding is a request of a policy for on_cpu of a process for ten minutes, as policies ask.
func holding(pid uint32, holds func() bool) Request {
	r := asks(pid, "on_cpu")
	r.Duration, r.Extend, r.Holds = 10*time.Minute, true, holds
	return r
}

// startedOf are the processes of which something was started, in that order.
func (h *harness) startedOf() (pids []uint32) {
	for _, spec := range h.starter.started() {
		if len(spec.Processes) > 0 {
			pids = append(pids, spec.Processes[0].ID.PID)
		}
	}
	return pids
}

// TestRestsAreLookedAtAgain checks that a rest that finds no slot when its turn comes is tried again when there is one, like every waiting
// task, and that one that takes the slot of the run that it follows is not.
func TestRestsAreLookedAtAgain(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		h.Request(everybody(time.Minute))
		looked := &replies{}
		for pid := range uint32(3) {
			h.Request(holding(pid+1, func() bool { looked.note(fmt.Sprint(pid + 1)); return pid+1 == 3 }))
		}
		require.Equal(t, Stats{Running: 1, Scheduled: 3}, h.Stats())
		h.after(time.Minute + time.Second)
		require.Equal(t, []uint32{1}, h.startedOf())
		require.Empty(t, looked.all())
		h.events()
		h.after(10 * time.Minute)
		require.Equal(t, []uint32{1, 3}, h.startedOf())
		require.ElementsMatch(t, []string{"2", "3"}, looked.all())
		require.ElementsMatch(t, []string{FinishedEvent + " duration", FinishedEvent + " recovered", StartedEvent}, h.events())
	})
}

// TestOneRest checks that who asks again and again for what a longer run does has one rest of it, which lasts until the last of what was
// asked for is over.
func TestOneRest(t *testing.T) {
	for name, instance := range map[string]bool{"a process": false, "an instance, with others of it each time": true} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, nil, func(h *harness) {
				all := everybody(time.Hour)
				for pid := range uint32(100) {
					all.Processes = append(all.Processes, processOf(pid))
				}
				h.Request(all)
				h.after(50*time.Minute + 2*time.Second) // before which nothing is left of ten minutes
				for again := range uint32(9) {
					r := holding(1, nil)
					if instance {
						r.Runs[0].Instance, r.Runs[0].Processes = true, []*model.Process{processOf(50 + again), processOf(1)}
					}
					require.True(t, one(t, h.Request(r)).Already)
					require.Equal(t, Stats{Running: 1, Scheduled: 1}, h.Stats())
					h.after(time.Minute)
				}
				h.after(9*time.Minute - time.Second)
				require.Equal(t, 1, h.starter.runs(), "until ten minutes after the last request")
				require.Len(t, h.Tasks(), 2)
				h.after(2 * time.Second)
				require.Zero(t, h.starter.runs())
			})
		})
	}
}

// TestRestsLeaveRoom checks that rests leave a part of the queue to new requests, and that rests beyond that are counted.
func TestRestsLeaveRoom(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		h.Request(everybody(time.Minute))
		for pid := range uint32(maxWaiting) {
			require.True(t, one(t, h.Request(holding(pid+1, nil))).Already)
		}
		require.Equal(t, Stats{Running: 1, Scheduled: maxRests, Refused: maxWaiting - maxRests}, h.Stats())
		other := asks(1, "off_cpu")
		require.Equal(t, Queued, one(t, h.Request(other)).State)
		require.Contains(t, h.logs.All()[0].ContextMap()["error"], "on_cpu of a task of policy:slow ends with task")
	})
}

// TestCloseWhileAnotherFollows checks that a receiver stops while what others wait for, and longer, is being started.
func TestCloseWhileAnotherFollows(t *testing.T) {
	in(t, 4, nil, func(h *harness) {
		h.starter.takes = time.Second
		both := asks(1, "on_cpu")
		both.Processes = append(both.Processes, processOf(2))
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(both) })
		h.after(time.Millisecond)
		r := holding(1, nil)
		answered := answers(&r)
		require.Equal(t, Queued, one(t, h.Request(r)).State)
		h.Close() // a second goes by
		asked.Wait()
		require.Equal(t, []string{"on_cpu started"}, answered.all())
		require.Equal(t, Stats{}, h.Stats())
	})
}

// TestRestThatCannotStart checks that an event reports that a rest could not start.
func TestRestThatCannotStart(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		h.Request(everybody(time.Minute))
		h.Request(holding(1, nil))
		h.events()
		h.starter.answers(errors.New("no room"))
		h.after(time.Minute + time.Second)
		require.ElementsMatch(t, []string{FinishedEvent + " duration", FinishedEvent + " failed"}, h.events())
		require.Equal(t, "starting on_cpu: no room", h.Tasks()[1].Runs[0].Error)
	})
}

// TestRestGoesOnAtOnce checks that a rest begins when the run that it follows ends, also before its time, and ends when it was to.
func TestRestGoesOnAtOnce(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		all := one(t, h.Request(everybody(5*time.Minute))).TaskID
		h.Request(holding(1, nil))
		h.after(time.Minute)
		require.NoError(t, h.Manager.Stop(all))
		h.after(time.Millisecond)
		require.Equal(t, []uint32{1}, h.startedOf())
		h.after(9*time.Minute - time.Second)
		require.Equal(t, 1, h.starter.runs())
		h.after(2 * time.Second)
		require.Zero(t, h.starter.runs())
	})
}
