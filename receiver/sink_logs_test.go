// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// ConsumeLogs notes the one attribute of each log.
func (c *taker) ConsumeLogs(ctx context.Context, l plog.Logs) error {
	if err := c.hear(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range l.ResourceLogs().All() {
		for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
			n, _ := record.Attributes().Get("n")
			c.took = append(c.took, n.Int())
		}
	}
	return nil
}

// event is something that has happened; the number distinguishes it from others.
func event(name string, n int64) model.Log {
	return model.Log{Event: name, Attributes: []model.Attribute{model.Int("n", n)}}
}

func logsOf(logs ...model.Log) []*model.Logs {
	return []*model.Logs{{Process: &model.Process{ID: model.ProcessID{PID: 1}}, Logs: logs}}
}

func newTestLogSink(next *taker, off map[string]bool) *logSink {
	s := newLogSink(next, off, zap.NewNop(), "1.0", 1<<20)
	s.start(func(work func()) { work() })
	return s
}

// TestLogsComeAgain checks that what was refused for now comes later, in order and once.
func TestLogsComeAgain(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestLogSink(next, nil)
	s.put(logsOf(event("a", 1), event("a", 2)))
	eventually(t, "an attempt", func() bool { return next.attempts() > 0 })
	next.answers(nil)
	s.put(logsOf(event("a", 3)))
	s.stop(t.Context())
	require.Equal(t, []int64{1, 2, 3}, next.taken())
	require.Zero(t, s.queue.dropped.Load()+s.refused.Load()+s.queue.held.Load())
}

// TestLogsAreReleased checks that the memory of logs is released once, when they were taken or are disabled, not while they may be built
// anew, and that what was taken does not lie there.
func TestLogsAreReleased(t *testing.T) {
	var released atomic.Int64
	held := func(name string, n int64) []*model.Logs {
		logs := logsOf(event(name, n))
		list := logs[0].Logs
		logs[0].Release = func() {
			released.Add(1)
			list[0] = event("another", -1)
		}
		return logs
	}
	next := &taker{answer: refuse}
	s := newTestLogSink(next, map[string]bool{"off": true})
	s.put(held("a", 1))
	eventually(t, "an attempt", func() bool { return next.attempts() > 0 })
	require.Zero(t, released.Load())
	s.put(held("off", 2))
	require.EqualValues(t, 1, released.Load())
	next.answers(nil)
	s.put(held("a", 3))
	s.stop(t.Context())
	require.EqualValues(t, 3, released.Load())
	require.Equal(t, []int64{1, 3}, next.taken())
}

// TestTheOldestLogsGoFirst checks that what is kept is bounded, and what goes is counted.
func TestTheOldestLogsGoFirst(t *testing.T) {
	next := &taker{answer: refuse}
	s := newTestLogSink(next, nil)
	const more = 2
	for n := range int64(maxPendingLogs + more) {
		s.put(logsOf(event("a", n)))
		eventually(t, "an attempt", func() bool { return next.attempts() > int(n) })
	}
	require.Equal(t, uint64(more), s.queue.dropped.Load())
	next.answers(nil)
	s.stop(t.Context())
	require.Len(t, next.taken(), maxPendingLogs)
	require.Equal(t, int64(more), next.taken()[0])
}

// TestEventsAreTurnedOff checks that what the configuration turns off is not delivered, and that nothing is where all is.
func TestEventsAreTurnedOff(t *testing.T) {
	c, err := load(t, "config.yaml", "ebpf/events")
	require.NoError(t, err)
	off := turnedOff(c.Events)
	require.Equal(t, map[string]bool{"ebpf.request": true}, off)
	require.Empty(t, turnedOff(createDefaultConfig().(*Config).Events))
	next := &taker{}
	s := newTestLogSink(next, off)
	s.put(logsOf(event("ebpf.request", 1)))
	s.put(logsOf(event("ebpf.request", 2), event("ebpf.request.top", 3)))
	s.stop(t.Context())
	require.Equal(t, []int64{3}, next.taken())
	require.Equal(t, 1, next.attempts())
}

func TestLogBytes(t *testing.T) {
	log := event("a", 1)
	log.Attributes = append(log.Attributes, model.Text("path", "/four"))[:2:2]
	logs := logsOf(log)
	require.Equal(t, uint64(120+2*48+5), bytesOfLogs(logs[0]))
	logs[0].Bytes = 1000
	require.Equal(t, uint64(1000), bytesOfLogs(logs[0]), "counted already")
}
