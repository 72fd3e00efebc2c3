// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// eventsOf are n events of a process, numbered from first on, of about 1 KiB each.
func eventsOf(process *model.Process, first, n int64) *model.Logs {
	of := &model.Logs{Process: process}
	for i := range n {
		l := event("ebpf.request", first+i)
		l.Attributes = append(l.Attributes, model.Text("url.path", strings.Repeat("x", 800)))
		of.Logs = append(of.Logs, l)
	}
	return of
}

// TestNoisyProcessEvictsItsOwnLogs checks that while a consumer is slow, and one process logs more than the sink can hold, no event of another process
// is lost, that each dropped event is counted, and that one log line names the process.
func TestNoisyProcessEvictsItsOwnLogs(t *testing.T) {
	noisy, honest := &model.Process{ID: model.ProcessID{PID: 7}, Executable: "/noisy"}, &model.Process{ID: model.ProcessID{PID: 8}}
	release := make(chan struct{})
	next := &taker{answer: func(context.Context) error { <-release; return nil }}
	core, lines := observer.New(zap.WarnLevel)
	s := newLogSink(next, nil, zap.New(core), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	const rounds, many, few, honestFrom = 20, 600, 5, 1 << 20
	for i := range int64(rounds) {
		s.put([]*model.Logs{eventsOf(noisy, i*many, many), eventsOf(honest, honestFrom+i*few, few)})
		require.LessOrEqual(t, s.queue.held.Load(), uint64(1<<20), "round %d", i)
	}
	close(release)
	s.stop(t.Context())
	var ofHonest, ofNoisy int64
	for _, n := range next.taken() {
		if n < honestFrom {
			ofNoisy++
			continue
		}
		require.Equal(t, honestFrom+ofHonest, n, "in order")
		ofHonest++
	}
	require.EqualValues(t, rounds*few, ofHonest)
	require.Positive(t, ofNoisy)
	require.EqualValues(t, rounds*many-ofNoisy, s.queue.records.Load())
	require.Zero(t, s.queue.held.Load())
	require.Equal(t, 1, lines.Len())
	fields := lines.All()[0].ContextMap()
	require.Equal(t, []any{"logs", uint32(7), "/noisy"}, []any{fields["signal"], fields["pid"], fields["executable"]})
	require.Positive(t, fields["records"])
}

// TestSeveralDropAtOnce checks that reports and tasks may hand over logs at the same time while records are dropped: one line is logged.
func TestSeveralDropAtOnce(t *testing.T) {
	core, lines := observer.New(zap.WarnLevel)
	s := newLogSink(&taker{}, nil, zap.New(core), "1.0", 64<<10) // not started: nothing is delivered
	var putting sync.WaitGroup
	for n := range uint32(4) {
		putting.Go(func() {
			for range 20 {
				s.put([]*model.Logs{eventsOf(&model.Process{ID: model.ProcessID{PID: n}}, 0, 100)})
			}
		})
	}
	putting.Wait()
	require.Positive(t, s.queue.records.Load())
	require.Equal(t, 1, lines.Len())
}

// TestNoisyProcessEvictsItsOwnSpans holds the same of spans.
func TestNoisyProcessEvictsItsOwnSpans(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTraceSink(next, zap.NewNop(), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	many := spansOf(1)
	for range 20000 {
		many[0].Spans = append(many[0].Spans, many[0].Spans[0])
	}
	few := spansOf(2)
	few[0].Process = &model.Process{ID: model.ProcessID{PID: 8}}
	s.put(few)
	s.put(many)
	require.LessOrEqual(t, s.queue.held.Load(), uint64(1<<20))
	next.answers(nil)
	s.stop(t.Context())
	taken := next.taken()
	require.EqualValues(t, 20001-(len(taken)-1), s.queue.records.Load())
	require.EqualValues(t, 2, taken[0])
}

// TestDroppedLogsAreReleased checks that memory of dropped logs is given back.
func TestDroppedLogsAreReleased(t *testing.T) {
	released := 0
	s := &logSink{sink: &sink{logger: zap.NewNop(), arrived: make(chan struct{}, 1)}}
	s.queue.maxPending, s.queue.maxBytes = 10, 1000
	for range 3 {
		logs := logsOf(event("a", 1))
		logs[0].Bytes, logs[0].Release = 600, func() { released++ }
		s.put(logs)
	}
	require.Equal(t, 2, released)
	require.EqualValues(t, 600, s.queue.held.Load())
	require.EqualValues(t, 2, s.queue.records.Load())
}

// TestManyPartsAreDropped drops what a process has in all of many intervals, and then all parts but one.
func TestManyPartsAreDropped(t *testing.T) {
	const intervals, processes, noisy = 200, 100, 10
	q := &deliveries{maxPending: intervals + 1, maxBytes: 1 << 30}
	for range intervals {
		d := &delivery{bytes: processes - 1 + noisy}
		for pid := range uint32(processes) {
			p := part{process: &model.Process{ID: model.ProcessID{PID: pid}}, bytes: 1, records: 1, drop: func() {}}
			if pid == processes-1 {
				p.bytes = noisy
			}
			d.parts = append(d.parts, p)
		}
		q.push(d)
	}
	trim := func(bound uint64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.maxBytes = bound
		q.trim()
	}
	trim(intervals * processes) // the noisy one keeps as many bytes as each of the others has
	require.EqualValues(t, intervals-intervals/noisy, q.records.Load())
	require.EqualValues(t, processes-1, q.waiting[0].bytes)
	trim(1)
	require.EqualValues(t, 1, q.held.Load())
	require.EqualValues(t, intervals*processes-1, q.records.Load())
	require.EqualValues(t, intervals-1, q.dropped.Load())
}
