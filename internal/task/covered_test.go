// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestLongerThanWhatStarts checks that what is asked for while the same is being started lasts as long as the longer of both.
func TestLongerThanWhatStarts(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		h.starter.takes = time.Second
		short, long := asks(1, "on_cpu"), asks(1, "on_cpu")
		short.Duration = 5 * time.Second
		long.Duration, long.Extend = 10*time.Minute, true
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(short) })
		h.after(time.Millisecond)
		require.True(t, one(t, h.Request(long)).Already)
		asked.Wait()
		h.after(10*time.Minute - time.Second)
		require.Equal(t, 1, h.starter.runs())
		require.Equal(t, 10*time.Minute, h.Tasks()[0].Runs[0].Duration)
		h.after(2 * time.Second)
		require.Zero(t, h.starter.runs())
	})
}

// replies are the answers that a requester got later.
type replies struct {
	mu   sync.Mutex
	list []string
}

func (o *replies) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, what)
}

func (o *replies) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.list)
}

// answers collects the answers that the requester of r gets later.
func answers(r *Request) *replies {
	o := &replies{}
	r.Started = func(kind string) { o.note(kind + " started") }
	r.Failed = func(kind string, why error) { o.note(kind + " failed: " + why.Error()) }
	return o
}

// TestFollows checks that a request for a run that another request is just starting, or waits for, is answered when that has begun or
// failed: a run that may still fail is not reported as started.
func TestFollows(t *testing.T) {
	for name, tc := range map[string]struct {
		running int
		fail    error
		before  []string // events until it has begun
		want    string
		events  []string // since
	}{
		"starts":            {running: 2, want: "on_cpu started", events: []string{TriggeredEvent, StartedEvent}},
		"cannot start":      {running: 2, fail: errors.New("no room"), want: "on_cpu failed: starting on_cpu: no room"},
		"waits":             {running: 1, want: "on_cpu started", events: []string{FinishedEvent + " duration", TriggeredEvent, StartedEvent}},
		"waits and cannot":  {running: 1, fail: errors.New("no room"), want: "on_cpu failed: starting on_cpu: no room", events: []string{FinishedEvent + " duration", FinishedEvent + " failed"}},
		"waits for nothing": {running: 1, want: "on_cpu failed: starting on_cpu: it has waited in vain: stopped", events: []string{FinishedEvent + " stopped"}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, tc.running, nil, func(h *harness) {
				if tc.running == 1 {
					h.Request(asks(2, "on_cpu"))
				}
				h.events()
				h.starter.takes = time.Second
				h.starter.answers(tc.fail)
				var asked sync.WaitGroup
				asked.Go(func() { h.Request(asks(1, "on_cpu")) })
				h.after(time.Millisecond)
				r := asks(1, "on_cpu")
				r.Causes = []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93}}
				later := answers(&r)
				first := one(t, h.Request(r))
				require.Equal(t, Outcome{Kind: "on_cpu", TaskID: first.TaskID, Already: true, State: Queued}, first)
				require.Empty(t, later.all())
				require.Empty(t, h.events())
				asked.Wait()
				if name == "waits for nothing" {
					require.NoError(t, h.Manager.Stop(first.TaskID))
					h.after(time.Millisecond)
				} else {
					h.after(62 * time.Second)
				}
				require.Equal(t, []string{tc.want}, later.all())
				events := h.events()
				require.GreaterOrEqual(t, len(events), len(tc.events))
				require.Equal(t, tc.events, events[:len(tc.events)])
			})
		})
	}
}

// TestTurnWhileTheSameStarts checks that what has waited is not taken for done by what only starts, and may fail.
func TestTurnWhileTheSameStarts(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		h.Request(asks(7, "on_cpu"))
		h.Request(asks(8, "on_cpu"))
		why := errors.New("no room")
		h.starter.takes = time.Second
		h.starter.answers(why)
		later := asks(1, "on_cpu")
		later.Start = time.Now().Add(time.Minute) // the second ends then, too
		h.Request(later)
		r := asks(1, "on_cpu")
		r.Start = later.Start
		answer := answers(&r)
		require.Equal(t, Scheduled, one(t, h.Request(r)).State)
		h.after(time.Minute + 1500*time.Millisecond)
		h.starter.answers(nil)
		require.Empty(t, answer.all())
		h.after(3 * time.Second)
		require.Equal(t, []string{"on_cpu started"}, answer.all())
		require.Equal(t, 1, h.starter.runs())
	})
}

// TestOutlasts checks that a run for everybody lasts no longer for the sake of one process, which is observed on when it has ended.
func TestOutlasts(t *testing.T) {
	for name, takes := range map[string]time.Duration{"runs": 0, "starts": time.Second} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, nil, func(h *harness) {
				h.starter.takes = takes
				all := Request{By: "config", Name: "all", Duration: time.Minute, Runs: []Run{{Kind: "on_cpu"}}}
				if takes > 0 { // who is observed by targets is known when it has started
					all.Processes = []*model.Process{processOf(1), processOf(2)}
				}
				var asked sync.WaitGroup
				asked.Go(func() { h.Request(all) })
				h.after(time.Millisecond)
				r := asks(1, "on_cpu")
				r.Duration, r.Extend = 10*time.Minute, true
				later := answers(&r)
				require.True(t, one(t, h.Request(r)).Already)
				asked.Wait()
				if takes > 0 {
					require.Equal(t, []string{"on_cpu started"}, later.all())
				}
				require.Equal(t, Stats{Running: 1, Scheduled: 1}, h.Stats())
				h.events()
				h.after(time.Minute + 2*takes)
				require.ElementsMatch(t, []string{FinishedEvent + " duration", StartedEvent}, h.events())
				require.Equal(t, 1, h.starter.runs())
				rest := h.starter.started()[1]
				require.Equal(t, r.Processes, rest.Processes)
				require.Equal(t, "policy:slow", h.record(rest.TaskID).By)
				h.after(9*time.Minute - 2*time.Second - 2*takes)
				require.Equal(t, 1, h.starter.runs())
				h.after(4*time.Second + 2*takes)
				require.Zero(t, h.starter.runs())
				require.Equal(t, []string{FinishedEvent + " duration"}, h.events())
			})
		})
	}
}

// TestOutlastsWhatIsExtended checks that the rest is put off while the run for everybody goes on.
func TestOutlastsWhatIsExtended(t *testing.T) {
	in(t, 2, nil, func(h *harness) {
		all := Request{By: "config", Duration: time.Minute, Runs: []Run{{Kind: "on_cpu"}}}
		h.Request(all)
		r := asks(1, "on_cpu")
		r.Duration, r.Extend = 10*time.Minute, true
		h.Request(r)
		all.Duration, all.Extend = 5*time.Minute, true
		require.True(t, one(t, h.Request(all)).Already)
		h.after(5*time.Minute - time.Second)
		require.Len(t, h.starter.started(), 1)
		h.after(2 * time.Second)
		require.Len(t, h.starter.started(), 2)
		require.Equal(t, 1, h.starter.runs())
		h.after(5*time.Minute - 3*time.Second)
		require.Equal(t, 1, h.starter.runs())
		h.after(4 * time.Second)
		require.Zero(t, h.starter.runs())
	})
}
