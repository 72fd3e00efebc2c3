// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// triggering is policies that need no kernel: one policy that holds each second, and one process.
func triggering(t *testing.T, ask func(task.Request) []task.Outcome) (p *policies, next func() []policy.Trigger) {
	p, under := loaded(t, ask)
	return p, func() []policy.Trigger { return under(2) }
}

// loaded is triggering with a policy that holds from a load of 1 on.
func loaded(t *testing.T, ask func(task.Request) []task.Outcome) (p *policies, next func(load float64) []policy.Trigger) {
	of := when("loaded", policy.Rule{Monitor: monitor.SystemLoad, Threshold: 1, Period: 1, Count: 1})
	of.Runs = append(of.Runs, task.Run{Kind: "off_cpu"})
	p = &policies{
		watch: policy.New([]policy.Policy{of.Policy}), ask: ask, logger: zap.NewNop(), warnings: warn.NewRarely(zap.NewNop(), "", nil),
		entries: []policyEntry{{Policy: of}}, fired: make(chan struct{}, 1),
	}
	t.Cleanup(p.warnings.Close)
	p.watch.Add(&model.Process{ID: model.ProcessID{PID: 1, StartTicks: 1}}, []int{0})
	second := int64(1000)
	return p, func(load float64) []policy.Trigger {
		second++
		return p.watch.Tick(policy.Reading{
			Second: second, At: p.clock.boot(), Host: map[*monitor.Descriptor]float64{monitor.SystemLoad: load},
			Usage: func(model.ProcessID) (policy.Usage, bool) { return policy.Usage{}, false },
		})
	}
}

// TestGateIsClosedByWhatRuns holds that a policy is silent when something that it asked for has run, and only then, in whatever order
// the answers come.
func TestGateIsClosedByWhatRuns(t *testing.T) {
	why := errors.New("no room")
	for name, tc := range map[string]struct {
		ask    func(task.Request) []task.Outcome
		later  func(task.Request)
		silent bool
	}{
		"both run": {ask: func(task.Request) []task.Outcome {
			return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Started}, {Kind: "off_cpu", TaskID: "1", State: task.Started}}
		}, silent: true},
		"one has ended before the other one failed": {ask: func(task.Request) []task.Outcome {
			return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Ended}, {Kind: "off_cpu", Err: why}}
		}, silent: true},
		"one fails twice, the other one runs": {ask: func(r task.Request) []task.Outcome {
			r.Failed("on_cpu", why)
			return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Ended, Err: why}, {Kind: "off_cpu", TaskID: "1", State: task.Queued}}
		}, later: func(r task.Request) { r.Started("off_cpu") }, silent: true},
		"what others start fails": {ask: func(task.Request) []task.Outcome {
			return []task.Outcome{{Kind: "on_cpu", TaskID: "2", Already: true, State: task.Queued}, {Kind: "off_cpu", Err: why}}
		}, later: func(r task.Request) { r.Failed("on_cpu", why) }},
		"nothing runs": {ask: func(task.Request) []task.Outcome {
			return []task.Outcome{{Kind: "on_cpu", Err: why}, {Kind: "off_cpu", Err: why}}
		}},
		"one has waited in vain by now": {ask: func(r task.Request) []task.Outcome {
			r.Failed("on_cpu", why)
			return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Ended}, {Kind: "off_cpu", Err: why}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked task.Request
			p, next := triggering(t, func(r task.Request) []task.Outcome {
				asked = r
				return tc.ask(r)
			})
			fired := next()
			require.Len(t, fired, 1)
			p.trigger(fired[0])
			if tc.later != nil {
				require.Empty(t, next(), "the outcome is not known yet")
				tc.later(asked)
			}
			require.Equal(t, !tc.silent, len(next()) == 1)
		})
	}
}

// TestTriggersAreReportedOnce holds that a trigger that starts nothing is reported once, until one starts something, and that the policy is silent
// where there is nothing to run.
func TestTriggersAreReportedOnce(t *testing.T) {
	var got []bool
	var outcomes []task.Outcome
	p, next := triggering(t, func(r task.Request) []task.Outcome {
		got = append(got, r.Reported)
		return outcomes
	})
	p.clock.read = func() clocks { return clocks{} } // of which none is tried again later than at once
	retry := func() {
		p.watch.Started("loaded", model.ProcessID{PID: 1, StartTicks: 1}, -time.Hour)
		fired := next()
		require.Len(t, fired, 1)
		p.trigger(fired[0])
	}
	outcomes = []task.Outcome{{Kind: "on_cpu", Err: task.ErrClosed}, {Kind: "off_cpu", Err: task.ErrClosed}}
	p.trigger(next()[0])
	outcomes[0].Err, outcomes[1].Err = task.ErrFull, task.ErrFull
	p.trigger(next()[0])
	require.Equal(t, []bool{false, false}, got, "there was no pipeline for it")
	p.clock.read = func() clocks { return clocks{boot: time.Hour} }
	p.trigger(next()[0])
	require.Equal(t, []bool{false, false, true}, got)
	retry()
	require.False(t, got[3], "something has run since")

	p.clock.read = func() clocks { return clocks{boot: 2 * time.Hour} }
	outcomes = nil
	p.trigger(next()[0])
	require.Empty(t, next(), "silence")
	var stats Stats
	stats.Lost = map[LossKey]uint64{}
	p.stats(&stats)
	require.Equal(t, uint64(5), stats.Triggers)
}

// TestWhoWaitsIsLookedAtAgain holds that a task that waits can ask whether its policy still holds.
func TestWhoWaitsIsLookedAtAgain(t *testing.T) {
	var asked task.Request
	p, under := loaded(t, func(r task.Request) []task.Outcome {
		asked = r
		return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Queued}, {Kind: "off_cpu", TaskID: "1", State: task.Queued}}
	})
	fired := under(1)
	require.Len(t, fired, 1)
	p.trigger(fired[0])
	for _, load := range []float64{5, 0, 1} {
		require.Empty(t, under(load))
		require.Equal(t, load >= 1, asked.Holds())
	}
	p.watch.Remove(fired[0].Process.ID)
	require.False(t, asked.Holds())
}

// TestSilenceOutlivesTheEngine holds that a policy is silent for what the history of tasks says that it has started.
func TestSilenceOutlivesTheEngine(t *testing.T) {
	p, next := triggering(t, nil)
	now := clocks{boot: 10 * time.Hour, wall: time.Now().Round(0)}
	p.clock.read = func() clocks { return now }
	e := &Engine{policies: p}
	id := model.ProcessID{PID: 1, StartTicks: 1}
	e.RestoreSilence("loaded", id, now.wall.Add(-59*time.Minute)) // silence is an hour
	require.Empty(t, next())
	now.boot += time.Minute
	require.Len(t, next(), 1)
	p.watch.Failed("loaded", id, now.boot, false)
	e.RestoreSilence("loaded", id, now.wall.Add(time.Hour)) // the wall clock was set back since
	require.Empty(t, next())
	now.boot += time.Hour
	require.Len(t, next(), 1)
	(&Engine{}).RestoreSilence("loaded", id, now.wall) // of an engine without policies
}
