// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// one is the outcome of a request of one run.
func one(t *testing.T, outcomes []Outcome) Outcome {
	t.Helper()
	require.Len(t, outcomes, 1)
	return outcomes[0]
}

func TestRunsForItsTime(t *testing.T) {
	in(t, 4, nil, func(h *harness) {
		r := asks(1, "on_cpu", "off_cpu")
		r.Runs[1].Duration = 10 * time.Second
		outcomes := h.Request(r)
		id := outcomes[0].TaskID
		require.Len(t, id, 16)
		require.Equal(t, []Outcome{{Kind: "on_cpu", TaskID: id, State: Started}, {Kind: "off_cpu", TaskID: id, State: Started}}, outcomes)
		require.Equal(t, []string{StartedEvent, StartedEvent}, h.events())
		require.Equal(t, Stats{Running: 1}, h.Stats())
		begin := time.Now()

		h.after(10*time.Second - 1)
		require.Equal(t, 2, h.starter.runs())
		h.after(time.Millisecond)
		require.Equal(t, 1, h.starter.runs())
		require.Equal(t, []string{FinishedEvent + " duration"}, h.events())
		require.Equal(t, Stats{Running: 1}, h.Stats())
		h.after(50 * time.Second)
		require.Zero(t, h.starter.runs())
		require.Equal(t, []string{FinishedEvent + " duration"}, h.events())
		require.Equal(t, Stats{}, h.Stats())

		record := h.record(id)
		require.Equal(t, "policy", record.Origin())
		require.Equal(t, "slow", record.Policy())
		require.Equal(t, RunRecord{
			Kind: "on_cpu", State: Ended, Processes: []ProcessName{{1, 101, "shop"}}, Of: 1, Duration: time.Minute,
			Begin: begin, End: record.Runs[0].End, Reason: TimeUp, Counts: Counts{Samples: 7, Losses: 1},
		}, record.Runs[0])
		require.WithinDuration(t, begin.Add(time.Minute), record.Runs[0].End, 10*time.Millisecond)
	})
}

// TestNotDoubled checks that a process is observed once by each kind, and that the rest of a request goes on.
func TestNotDoubled(t *testing.T) {
	in(t, 8, nil, func(h *harness) {
		first := one(t, h.Request(asks(1, "on_cpu")))
		require.Equal(t, Outcome{Kind: "on_cpu", TaskID: first.TaskID, Already: true, State: Started}, one(t, h.Request(asks(1, "on_cpu"))))
		both := h.Request(asks(1, "off_cpu", "on_cpu"))
		require.Equal(t, Outcome{Kind: "on_cpu", TaskID: first.TaskID, Already: true, State: Started}, both[1])
		require.NotEqual(t, first.TaskID, both[0].TaskID)
		require.Equal(t, Started, both[0].State)

		two := asks(1, "on_cpu")
		two.Processes = append(two.Processes, processOf(2))
		second := one(t, h.Request(two))
		require.NotEqual(t, first.TaskID, second.TaskID)
		require.Equal(t, []*model.Process{processOf(2)}, h.starter.starts[2].Processes)
		require.Len(t, h.record(second.TaskID).Runs[0].Processes, 1)

		other := asks(1, "on_cpu")
		other.Processes[0].ID.StartTicks++ // the pid's next owner
		require.False(t, one(t, h.Request(other)).Already)
		require.Equal(t, 4, h.Stats().Running)
		h.after(time.Minute)
		require.False(t, one(t, h.Request(asks(1, "on_cpu"))).Already, "the first one has ended")
	})
}

func TestTargetsCover(t *testing.T) {
	in(t, 8, nil, func(h *harness) {
		r := Request{By: "config", Duration: time.Minute, Runs: []Run{{Kind: "on_cpu"}}, Targets: []process.Selector{{Comm: "a"}}}
		first := one(t, h.Request(r))
		require.Equal(t, Started, first.State)
		require.True(t, one(t, h.Request(r)).Already)
		h.starter.running[first.TaskID+"on_cpu"].covers = func(id model.ProcessID) bool { return id.PID == 1 }
		require.Equal(t, first.TaskID, one(t, h.Request(asks(1, "on_cpu"))).TaskID)
		require.False(t, one(t, h.Request(asks(2, "on_cpu"))).Already)
		r.Targets = []process.Selector{{Comm: "b"}}
		require.False(t, one(t, h.Request(r)).Already)
		r.Targets = nil
		require.False(t, one(t, h.Request(r)).Already)
		require.True(t, one(t, h.Request(r)).Already)
	})
}

func TestExtend(t *testing.T) {
	in(t, 8, nil, func(h *harness) {
		first := one(t, h.Request(asks(1, "on_cpu")))
		h.after(50 * time.Second)
		again := asks(1, "on_cpu")
		again.Extend = true
		require.Equal(t, first.TaskID, one(t, h.Request(again)).TaskID)
		h.after(50 * time.Second)
		require.Equal(t, 1, h.starter.runs())
		require.NoError(t, h.Extend(first.TaskID, time.Second), "it ends later already")
		h.after(10*time.Second + time.Millisecond)
		require.Zero(t, h.starter.runs())
		require.Equal(t, 110*time.Second, h.record(first.TaskID).Runs[0].Duration)
		require.ErrorIs(t, h.Extend(first.TaskID, time.Second), ErrUnknown)

		second := one(t, h.Request(asks(1, "on_cpu")))
		require.NoError(t, h.Extend(second.TaskID, time.Hour))
		h.after(59 * time.Minute)
		require.Equal(t, 1, h.starter.runs())
		require.NoError(t, h.Manager.Stop(second.TaskID))
		synctest.Wait()
		require.Zero(t, h.starter.runs())
		require.Equal(t, Stopped, h.record(second.TaskID).Runs[0].Reason)
		require.ErrorIs(t, h.Manager.Stop(second.TaskID), ErrUnknown)
		require.ErrorIs(t, h.Manager.Stop("unknown"), ErrUnknown)
	})
}

// TestProcessesEnd checks that a run ends with the last of its processes, whenever it does.
func TestProcessesEnd(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		r := asks(1, "on_cpu", "network")
		r.Runs[1].Processes = []*model.Process{processOf(1), processOf(2)}
		id := h.Request(r)[0].TaskID
		waits := one(t, h.Request(asks(3, "on_cpu")))
		require.Equal(t, Queued, waits.State)
		h.events()
		h.Exited(processOf(9).ID)
		h.Exited(processOf(1).ID)
		synctest.Wait()
		require.Equal(t, []string{FinishedEvent + " process_exited"}, h.events())
		require.Equal(t, 1, h.starter.runs())
		h.Exited(processOf(3).ID)
		synctest.Wait()
		require.Equal(t, []string{FinishedEvent + " process_exited"}, h.events())
		require.Equal(t, ProcessExited, h.record(waits.TaskID).Runs[0].Reason)
		require.Zero(t, h.record(waits.TaskID).Runs[0].Begin)
		h.Exited(processOf(2).ID)
		synctest.Wait()
		require.Equal(t, []string{FinishedEvent + " process_exited"}, h.events())
		require.Equal(t, ProcessExited, h.record(id).Runs[1].Reason)
		require.Equal(t, Stats{}, h.Stats())
	})
}

// TestEndWhileStarting checks that an end that comes while a run starts is not missed.
func TestEndWhileStarting(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		h.starter.takes = time.Second
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(asks(1, "on_cpu")) })
		h.after(time.Millisecond)
		require.True(t, one(t, h.Request(asks(1, "on_cpu"))).Already, "it is being started")
		h.Exited(processOf(1).ID)
		asked.Wait()
		synctest.Wait()
		require.Zero(t, h.starter.runs())
		require.Equal(t, []string{StartedEvent, FinishedEvent + " process_exited"}, h.events())
	})
}

func TestStartsInTheFuture(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		r := asks(1, "on_cpu")
		r.Start = time.Now().Add(48 * time.Hour).Round(0)
		later := one(t, h.Request(r))
		require.Equal(t, Scheduled, later.State)
		require.Equal(t, Stats{Scheduled: 1}, h.Stats())
		require.Equal(t, r.Start, h.record(later.TaskID).Runs[0].Begin)
		require.False(t, one(t, h.Request(asks(1, "on_cpu"))).Already, "a later task does not keep this one from starting now")
		h.after(48*time.Hour - 2*time.Minute)
		require.Zero(t, h.starter.runs())
		h.events()
		h.after(2*time.Minute + time.Millisecond)
		require.Equal(t, 1, h.starter.runs())
		require.Equal(t, []string{StartedEvent}, h.events())
		cancelled := asks(2, "on_cpu")
		cancelled.Start = time.Now().Add(time.Hour)
		id := one(t, h.Request(cancelled)).TaskID
		require.NoError(t, h.Manager.Stop(id))
		h.after(2 * time.Hour)
		require.Equal(t, []string{FinishedEvent + " stopped", FinishedEvent + " duration"}, h.events())
		require.Zero(t, h.Stats())
	})
}

// TestQueue checks that waiting tasks start in their order, and that an event reports the wait.
func TestQueue(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		ids := map[string]uint32{}
		for pid := range uint32(5) {
			outcome := one(t, h.Request(asks(pid, "on_cpu")))
			require.Equal(t, map[bool]State{true: Started, false: Queued}[pid < 2], outcome.State)
			ids[outcome.TaskID] = pid
			require.Equal(t, Outcome{Kind: "on_cpu", TaskID: outcome.TaskID, Already: true, State: outcome.State}, one(t, h.Request(asks(pid, "on_cpu"))))
		}
		require.Equal(t, Stats{Running: 2, Queued: 3}, h.Stats())
		require.Equal(t, 1, h.logs.FilterMessage("Not all tasks run at once that are asked for").Len())
		h.after(3*time.Minute + time.Second)
		var order []uint32
		for _, spec := range h.starter.starts {
			order = append(order, ids[spec.TaskID])
		}
		require.ElementsMatch(t, []uint32{0, 1}, order[:2])
		require.ElementsMatch(t, []uint32{2, 3}, order[2:4])
		require.Equal(t, uint32(4), order[4])
		require.Equal(t, 2, h.starter.most)
	})
}

// TestTurns checks that a requester of many tasks does not hold up another one.
func TestTurns(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		for pid := range uint32(6) {
			h.Request(asks(pid+1, "on_cpu"))
		}
		for pid := range uint32(2) {
			other := asks(pid+100, "on_cpu")
			other.By = "policy:other"
			require.Equal(t, Queued, one(t, h.Request(other)).State)
		}
		h.after(time.Hour)
		var order []uint32
		for _, spec := range h.starter.started() {
			order = append(order, spec.Processes[0].ID.PID)
		}
		require.ElementsMatch(t, []uint32{1, 2}, order[:2])
		require.ElementsMatch(t, []uint32{100, 3}, order[2:4])
		require.ElementsMatch(t, []uint32{101, 4}, order[4:6])
		require.ElementsMatch(t, []uint32{5, 6}, order[6:])
	})
}

// TestLooksAgain checks that what has waited does not start when why it was asked for is over by then.
func TestLooksAgain(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		h.Request(asks(1, "on_cpu"))
		holds := map[uint32]bool{2: false, 3: true}
		answered, ids := map[uint32]*replies{}, map[uint32]string{}
		for _, pid := range []uint32{2, 3} {
			r := asks(pid, "on_cpu")
			r.Holds = func() bool { return holds[pid] }
			answered[pid] = answers(&r)
			ids[pid] = one(t, h.Request(r)).TaskID
		}
		h.events()
		h.after(time.Minute + time.Second)
		require.Equal(t, []string{"on_cpu failed: starting on_cpu: it has waited in vain: recovered"}, answered[2].all())
		require.Equal(t, []string{"on_cpu started"}, answered[3].all())
		require.Equal(t, Recovered, h.record(ids[2]).Runs[0].Reason)
		require.ElementsMatch(t, []string{FinishedEvent + " duration", FinishedEvent + " recovered", StartedEvent}, h.events())
		require.Equal(t, Stats{Running: 1}, h.Stats())
	})
}

// TestNobodyWaitsForEver checks that a waiting task is given up when it has lost its point, and that an event reports this.
func TestNobodyWaitsForEver(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		r := asks(1, "on_cpu")
		r.Duration = 24 * time.Hour
		h.Request(r)
		id := one(t, h.Request(asks(2, "on_cpu"))).TaskID
		h.events()
		h.after(time.Hour - time.Second)
		require.Empty(t, h.events())
		h.after(2 * time.Second)
		require.Equal(t, []string{FinishedEvent + " expired"}, h.events())
		require.Equal(t, Expired, h.record(id).Runs[0].Reason)
		require.Equal(t, Stats{Running: 1}, h.Stats())
	})
}

// TestQueuedAndThenFails checks that a requester whose run was queued is answered when it fails.
func TestQueuedAndThenFails(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		h.Request(asks(1, "on_cpu"))
		var failed []error
		r := asks(2, "on_cpu")
		r.Duration = time.Hour
		r.Failed = func(kind string, why error) { failed = append(failed, fmt.Errorf("%s: %w", kind, why)) }
		id := one(t, h.Request(r)).TaskID
		why := errors.New("no room")
		h.starter.answers(why)
		h.events()
		h.after(time.Minute + time.Millisecond)
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0], why)
		require.ElementsMatch(t, []string{FinishedEvent + " duration", FinishedEvent + " failed"}, h.events())
		record := h.record(id).Runs[0]
		require.Equal(t, Failed, record.Reason)
		require.Equal(t, "starting on_cpu: no room", record.Error)
	})
}

// TestWhoWaitsIsAnswered checks that each queued run is answered once, whatever becomes of it: its requester may request again only then.
func TestWhoWaitsIsAnswered(t *testing.T) {
	for name, end := range map[string]struct {
		of   func(h *harness, id string)
		want string
	}{
		"expired":        {func(h *harness, _ string) { h.after(time.Hour + time.Second) }, "failed: starting on_cpu: it has waited in vain: expired"},
		"stopped":        {func(h *harness, id string) { require.NoError(h.t, h.Manager.Stop(id)) }, "failed: starting on_cpu: it has waited in vain: stopped"},
		"process_exited": {func(h *harness, _ string) { h.Exited(processOf(2).ID) }, "failed: starting on_cpu: it has waited in vain: process_exited"},
		"shutdown":       {func(h *harness, _ string) { h.Close() }, "failed: starting on_cpu: it has waited in vain: shutdown"},
		"started":        {func(h *harness, _ string) { h.after(24 * time.Hour) }, "started"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 1, nil, func(h *harness) {
				first := asks(1, "on_cpu")
				first.Duration = 24 * time.Hour
				if name == "started" {
					first.Duration = time.Minute
				}
				h.Request(first)
				var answers []string
				r := asks(2, "on_cpu")
				r.Started = func(string) { answers = append(answers, "started") }
				r.Failed = func(_ string, why error) { answers = append(answers, "failed: "+why.Error()) }
				end.of(h, one(t, h.Request(r)).TaskID)
				synctest.Wait()
				require.Equal(t, []string{end.want}, answers)
			})
		})
	}
}

// TestLaterIsNotNow checks that a task of the future is kept where the same runs now, and is covered if that still runs then.
func TestLaterIsNotNow(t *testing.T) {
	for running, reason := range map[time.Duration]Reason{time.Minute: TimeUp, 48 * time.Hour: Covered} {
		in(t, 2, nil, func(h *harness) {
			now := asks(1, "on_cpu")
			now.Duration = running
			h.Request(now)
			r, started := asks(1, "on_cpu"), 0
			r.Start = time.Now().Add(24 * time.Hour)
			r.Started = func(string) { started++ }
			later := one(t, h.Request(r))
			require.Equal(t, Outcome{Kind: "on_cpu", TaskID: later.TaskID, State: Scheduled}, later)
			h.after(24*time.Hour + 2*time.Minute)
			require.Equal(t, reason, h.record(later.TaskID).Runs[0].Reason)
			require.Equal(t, 1, started, "it observes, or another does")
		})
	}
}

// TestTriggeredIsOfItsOwnTask checks that the event names what was started for it, and comes only when something runs or will.
func TestTriggeredIsOfItsOwnTask(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		h.Request(asks(1, "on_cpu"))
		h.Request(asks(2, "on_cpu"))
		waits := one(t, h.Request(asks(3, "on_cpu")))
		require.Equal(t, Queued, waits.State)
		h.events()
		r := asks(1, "on_cpu", "off_cpu")
		r.Causes = []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93}}
		both := h.Request(r)
		require.True(t, both[0].Already)
		for n, want := range []int{1: 0, 2: 1} {
			of, ok := whose(both[:n])
			require.Equal(t, n > 0, ok)
			if ok {
				require.Equal(t, both[want], of)
			}
		}
		require.Equal(t, []string{TriggeredEvent}, h.events())
		r = asks(3, "on_cpu")
		r.Causes = []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93}}
		require.Equal(t, Outcome{Kind: "on_cpu", TaskID: waits.TaskID, Already: true, State: Queued}, one(t, h.Request(r)))
		require.Empty(t, h.events(), "nothing runs yet")
	})
}

// TestCannotStart checks that a request that came to nothing leaves nothing, and may come again.
func TestCannotStart(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		why := errors.New("no permission")
		h.starter.answers(why)
		r := asks(1, "on_cpu")
		r.Causes = []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93}}
		for range 3 {
			outcome := one(t, h.Request(r))
			require.ErrorIs(t, outcome.Err, why)
			require.Empty(t, outcome.TaskID)
			require.Equal(t, !r.Reported, slices.Contains(h.events(), TriggeredEvent), "it is reported once")
			r.Reported = true
		}
		require.Empty(t, h.Tasks())
		h.starter.answers(nil)
		require.NoError(t, one(t, h.Request(r)).Err)
		require.Equal(t, []string{TriggeredEvent, StartedEvent}, h.events())
	})
}

func TestRefuses(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		require.Empty(t, h.Request(Request{}))
		r := asks(1, "on_cpu", "on_cpu")
		require.ErrorContains(t, h.Request(r)[0].Err, "on_cpu is asked for twice")
		r = asks(1, "on_cpu")
		r.Duration = 0
		require.ErrorContains(t, h.Request(r)[0].Err, "how long it is to run is not said")
		require.Zero(t, h.Stats())
		h.Close()
		h.Close()
		require.ErrorIs(t, one(t, h.Request(asks(1, "on_cpu"))).Err, ErrClosed)
	})
}

// TestThousandAtOnce checks that what a second may bring stays within the bounds, is counted, and leaves nothing.
func TestThousandAtOnce(t *testing.T) {
	in(t, 16, nil, func(h *harness) {
		h.starter.takes = 100 * time.Millisecond
		var asking sync.WaitGroup
		var mu sync.Mutex
		states := map[State]int{}
		refused := 0
		for pid := range uint32(1500) {
			asking.Go(func() {
				outcome := h.Request(asks(pid+1, "on_cpu"))[0]
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(outcome.Err, ErrFull) {
					refused++
				} else {
					states[outcome.State]++
				}
			})
		}
		asking.Wait()
		require.Equal(t, map[State]int{Started: 16, Queued: maxWaiting}, states)
		require.Equal(t, 1500-16-maxWaiting, refused)
		require.Equal(t, Stats{Running: 16, Queued: maxWaiting, Refused: uint64(refused)}, h.Stats())
		require.Less(t, h.logs.Len(), 5, "a line for each would fill the log")
		h.after(2 * time.Hour)
		require.LessOrEqual(t, h.starter.most, 16)
		require.Equal(t, Stats{Refused: uint64(refused)}, h.Stats())
		require.Len(t, h.Tasks(), maxRecords)
	})
}

// TestShutdown checks that what runs and what waits ends with the receiver.
func TestShutdown(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		h.Request(asks(1, "on_cpu"))
		h.Request(asks(2, "on_cpu"))
		h.Close()
		require.ElementsMatch(t, []string{StartedEvent, FinishedEvent + " shutdown", FinishedEvent + " shutdown"}, h.events())
	})
}

// TestInstances checks that a run of an instance of a service goes on with those who join it, is not doubled for them, and ends when
// none is left.
func TestInstances(t *testing.T) {
	in(t, 4, nil, func(h *harness) {
		r := asks(1, "network")
		r.Runs[0].Instance = true
		id := one(t, h.Request(r)).TaskID
		o := h.starter.running[id+"network"]
		require.True(t, o.spec.Instance)
		o.living = []*model.Process{processOf(2), processOf(3)}
		o.covers = func(id model.ProcessID) bool { return id.PID <= 3 }
		require.Equal(t, id, one(t, h.Request(asks(2, "network"))).TaskID, "it is observed already")
		require.NotEqual(t, id, one(t, h.Request(asks(4, "network"))).TaskID)
		h.events()
		asked := 0
		o.asked = func() { // while processes are read others may ask for tasks
			asked++
			require.Equal(t, Stats{Running: 2}, h.Stats())
		}
		h.Exited(processOf(1).ID)
		h.after(time.Millisecond)
		require.Empty(t, h.events(), "others have joined")
		require.Equal(t, 1, asked)
		o.living = []*model.Process{processOf(3)}
		h.Exited(processOf(2).ID)
		h.after(time.Millisecond)
		require.Empty(t, h.events())
		h.Exited(processOf(3).ID)
		h.after(time.Millisecond)
		require.Equal(t, []string{FinishedEvent + " process_exited"}, h.events())
	})
}
