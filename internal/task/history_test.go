// SPDX-License-Identifier: Apache-2.0

package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestHistoryOutlivesARestart checks that tasks known before a restart are known after it, and that those that ran then are reported as
// interrupted.
func TestHistoryOutlivesARestart(t *testing.T) {
	store := &memory{values: map[string][]byte{}}
	var before Record
	in(t, 2, store, func(h *harness) {
		r := asks(1, "on_cpu")
		r.Causes = []model.Cause{{Monitor: "http_error_rate", Threshold: 5, Value: 12.5, Path: "/pay"}}
		id := one(t, h.Request(r)).TaskID
		h.after(time.Minute + 2*time.Second)
		before = h.record(id)
		require.NotEmpty(t, store.values)
	})
	in(t, 2, store, func(h *harness) {
		after := h.record(before.ID)
		require.True(t, before.Asked.Equal(after.Asked))
		require.Equal(t, before.Causes, after.Causes)
		require.Equal(t, before.Runs[0].Counts, after.Runs[0].Counts)
		require.Equal(t, TimeUp, after.Runs[0].Reason)
		require.Equal(t, &ProcessName{1, 101, "shop"}, after.Process, "the process that the policy is silent about")
		require.True(t, before.Runs[0].Begin.Equal(after.Began()))

		id := one(t, h.Request(asks(2, "on_cpu"))).TaskID
		h.after(2 * time.Second)
		raw, err := json.Marshal(h.record(id))
		require.NoError(t, err)
		store.values["task/500"] = raw // as after a crash, since stopping records the end
		h.Close()
	})
	in(t, 2, store, func(h *harness) {
		interrupted := 0
		for _, r := range h.Tasks() {
			if r.Runs[0].Reason == Interrupted {
				interrupted++
				require.Equal(t, Ended, r.Runs[0].State)
			}
		}
		require.Equal(t, 1, interrupted)
		require.Len(t, h.Tasks(), 3)
		h.after(49 * time.Hour)
		require.Empty(t, h.Tasks(), "48 hours are over")
		h.Request(asks(1, "on_cpu"))
		h.after(2 * time.Second)
		require.Len(t, store.values, 1, "and nothing of them is left on disk")
	})
}

// TestBadStore checks that a store that fails or has something else in it costs the history alone.
func TestBadStore(t *testing.T) {
	in(t, 2, &memory{fail: errors.New("disk")}, func(h *harness) {
		require.Equal(t, 1, h.logs.FilterMessage("Some of the history of tasks is lost").Len())
		require.Equal(t, Started, one(t, h.Request(asks(1, "on_cpu"))).State)
	})
	store := &memory{values: map[string][]byte{
		"task/0": []byte("{"), "task/1": []byte(`{"id":"a"}`), "task/2": make([]byte, maxRecordBytes+1), "task/3": []byte("null"), "task/4": {},
	}}
	in(t, 2, store, func(h *harness) {
		require.Empty(t, h.Tasks())
		require.Equal(t, 1, h.logs.FilterMessage("Some of the history of tasks is lost").Len())
	})
	store = &memory{values: map[string][]byte{}}
	in(t, 2, store, func(h *harness) {
		h.Request(asks(1, "on_cpu"))
		store.fails(errors.New("full"))
		h.after(5 * time.Second)
		require.Empty(t, store.values)
		store.fails(nil)
		h.Request(asks(2, "on_cpu"))
		h.after(5 * time.Second)
		require.Len(t, store.values, 2, "what could not be saved was tried again")
	})
}

// TestHistoryIsBounded checks that the oldest go first, and none that runs.
func TestHistoryIsBounded(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		r := asks(1, "network")
		r.Duration = 24 * time.Hour
		long := one(t, h.Request(r)).TaskID
		short := asks(1, "on_cpu")
		short.Duration = time.Second
		var last string
		for range maxRecords + 100 {
			last = one(t, h.Request(short)).TaskID
			h.after(1001 * time.Millisecond)
		}
		require.Len(t, h.Tasks(), maxRecords)
		require.Equal(t, long, h.Tasks()[0].ID)
		require.Equal(t, last, h.Tasks()[maxRecords-1].ID)
	})
}

// TestWhatNeverRanIsForgottenFirst checks that tasks that have waited in vain push none out that has run, that one that runs pushes them
// out, and that they are remembered where there is room.
func TestWhatNeverRanIsForgottenFirst(t *testing.T) {
	in(t, 1, nil, func(h *harness) {
		begun := func() (n int) {
			for _, r := range h.Tasks() {
				if !r.Began().IsZero() {
					n++
				}
			}
			return n
		}
		short := asks(1, "on_cpu")
		short.Duration = time.Second
		const ran = 100
		for range ran {
			h.Request(short)
			h.after(1001 * time.Millisecond)
		}
		h.Request(asks(1, "on_cpu"))
		for pid := range uint32(maxWaiting) {
			r := asks(pid+2, "on_cpu")
			r.Holds = func() bool { return false }
			require.Equal(t, Queued, one(t, h.Request(r)).State)
		}
		h.after(time.Minute + time.Second)
		require.Equal(t, Stats{}, h.Stats())
		require.Len(t, h.Tasks(), maxRecords)
		require.Equal(t, ran+1, begun())
		for range maxRecords {
			h.Request(short)
			h.after(1001 * time.Millisecond)
		}
		require.Equal(t, maxRecords, begun())
		h.Request(short)
		r := asks(7, "on_cpu")
		r.Holds = func() bool { return false }
		h.Request(r)
		h.after(2 * time.Second)
		require.Len(t, h.Tasks(), maxRecords)
		require.Equal(t, maxRecords, begun())
	})
}

// TestWhoHadItForItsOwn checks that the history says, over a restart, which policies had a run of another task for their own, whether
// that ran when they asked, was starting then, or ran when their turn had come; and that it says so of a few alone.
func TestWhoHadItForItsOwn(t *testing.T) {
	store := &memory{values: map[string][]byte{}}
	var want []Beneficiary
	note := func(by string, pid uint32, at time.Time) {
		want = append(want, Beneficiary{By: by, PID: pid, StartTicks: uint64(pid) + 100, At: at})
	}
	in(t, 2, store, func(h *harness) {
		h.starter.takes = time.Second
		all := everybody(time.Hour)
		for pid := range uint32(2 * maxFor) {
			all.Processes = append(all.Processes, processOf(pid))
		}
		begin := time.Now()
		waits := asks(3, "on_cpu")
		waits.By, waits.Start = "policy:waits", begin.Add(10*time.Second)
		h.Request(waits)
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(all) })
		h.after(time.Millisecond)
		follows := asks(1, "on_cpu")
		follows.By, follows.Causes = "policy:follows", []model.Cause{{Monitor: "process_cpu"}}
		h.Request(follows)
		note("policy:follows", 1, begin.Add(time.Second))
		asked.Wait()
		h.Request(asks(2, "on_cpu"))
		h.after(time.Second)
		h.Request(asks(2, "on_cpu")) // the last time counts
		note("policy:slow", 2, time.Now())
		others := asks(4, "on_cpu")
		others.By = "api"
		h.Request(others)
		goesOn := asks(5, "on_cpu") // for which its policy is silent since before
		goesOn.GoesOn = true
		require.True(t, one(t, h.Request(goesOn)).Already)
		h.after(10 * time.Second)
		note("policy:waits", 3, begin.Add(10*time.Second))
	})
	in(t, 2, store, func(h *harness) {
		list := h.Tasks()
		got := list[slices.IndexFunc(list, func(r Record) bool { return r.By == "config" })]
		require.Len(t, got.For, len(want))
		for i := range want {
			require.WithinDuration(t, want[i].At, got.For[i].At, 2*time.Millisecond)
			want[i].At = got.For[i].At
		}
		require.Equal(t, want, got.For)
		require.Equal(t, "waits", got.For[2].Policy())
		id := one(t, h.Request(everybody(time.Hour))).TaskID
		for pid := range uint32(2 * maxFor) {
			h.Request(asks(pid, "on_cpu"))
		}
		record := h.record(id)
		require.Len(t, record.For, maxFor)
		require.Equal(t, uint32(2*maxFor-1), record.For[maxFor-1].PID)
		raw, err := json.Marshal(record)
		require.NoError(t, err)
		require.Less(t, len(raw), maxRecordBytes/2)
	})
}

// TestRefusedLeavesNoRecord checks that a task that could not start is not remembered as one that runs, though another one had it last
// longer meanwhile.
func TestRefusedLeavesNoRecord(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		h.starter.takes = time.Second
		h.starter.answers(errors.New("no room"))
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(asks(1, "on_cpu")) })
		h.after(time.Millisecond)
		longer := asks(1, "on_cpu")
		longer.Duration, longer.Extend = time.Hour, true
		require.True(t, one(t, h.Request(longer)).Already)
		asked.Wait()
		require.Empty(t, h.Tasks())
	})
}

// TestRecordsAreBounded checks that the record of a task of many processes is small.
func TestRecordsAreBounded(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		r := asks(1, "network")
		for pid := range uint32(5000) {
			r.Processes = append(r.Processes, processOf(pid+2))
			r.Causes = append(r.Causes, model.Cause{Monitor: fmt.Sprint(pid)})
		}
		record := h.record(one(t, h.Request(r)).TaskID)
		require.Equal(t, 5001, record.Runs[0].Of)
		require.Len(t, record.Runs[0].Processes, maxNamed)
		require.Len(t, record.Causes, maxNamed)
		raw, err := json.Marshal(record)
		require.NoError(t, err)
		require.Less(t, len(raw), maxRecordBytes)
	})
}

// FuzzDecode checks that nothing that lies on a disk makes the receiver fall over, and that what is read can be kept.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"a","by":"api","asked":"2026-11-21T09:00:00Z","runs":[{"kind":"on_cpu","state":"started","duration":5}]}`))
	f.Add([]byte(`{"id":"a","runs":[{"targets":[{"PID":1}],"processes":[{"pid":1}]}],"causes":[{"monitor":"x","current":1e300}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decode(raw)
		if err != nil {
			return
		}
		r.interrupt(time.Unix(0, 0))
		_, ended := r.Ended()
		require.True(t, ended)
		_, err = json.Marshal(r)
		if err == nil {
			return
		}
		require.ErrorContains(t, err, "year", "a time that JSON has no words for")
	})
}
