// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// slowLog is an event with each type of attribute.
func slowLog() model.Log {
	return model.Log{
		Event: "ebpf.request", Time: time.Unix(100, 7), Observed: time.Unix(101, 0), Severity: model.Error,
		TraceID: [16]byte{1, 2}, SpanID: [8]byte{3}, Sampled: true,
		Attributes: []model.Attribute{
			model.Text("url.path", "/a\xff"), model.Int("http.response.status_code", 503), model.Bool("ebpf.tls", false), model.Float("ebpf.request.duration", 0.25),
			model.Causes("ebpf.causes", []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93.5}, {Monitor: "http_error_rate", Threshold: 5, Value: 50, Path: "/pay"}}),
		},
	}
}

// TestLogs checks that each field of a log arrives as what it is, in the resource of its process.
func TestLogs(t *testing.T) {
	one, other := &model.Process{ID: model.ProcessID{PID: 7}, ServiceName: "shop"}, &model.Process{ID: model.ProcessID{PID: 8}}
	b := NewLogsBuilder("scope", "1.2")
	for range 2 { // a builder is used again
		messages := b.Batches([]*model.Logs{
			{Process: one, Logs: []model.Log{slowLog()}}, {Process: other, Logs: []model.Log{{Severity: model.Warn}}}, {Process: one, Logs: []model.Log{{}}}, {Process: other},
		})
		require.Len(t, messages, 1)
		resources := messages[0].ResourceLogs()
		require.Equal(t, 2, resources.Len())
		first := resources.At(0)
		require.Equal(t, SchemaURL, first.SchemaUrl())
		require.Equal(t, map[string]any{"service.name": "shop", "process.pid": int64(7)}, first.Resource().Attributes().AsRaw())
		require.Equal(t, SchemaURL, first.ScopeLogs().At(0).SchemaUrl())
		require.Equal(t, "scope", first.ScopeLogs().At(0).Scope().Name())
		require.Equal(t, "1.2", first.ScopeLogs().At(0).Scope().Version())
		require.Equal(t, 2, first.ScopeLogs().At(0).LogRecords().Len())
		record := first.ScopeLogs().At(0).LogRecords().At(0)
		require.Equal(t, "ebpf.request", record.EventName())
		require.Equal(t, pcommon.Timestamp(100e9+7), record.Timestamp())
		require.Equal(t, pcommon.Timestamp(101e9), record.ObservedTimestamp())
		require.Equal(t, plog.SeverityNumberError, record.SeverityNumber())
		require.Equal(t, "ERROR", record.SeverityText())
		require.Equal(t, pcommon.TraceID{1, 2}, record.TraceID())
		require.Equal(t, pcommon.SpanID{3}, record.SpanID())
		require.True(t, record.Flags().IsSampled())
		require.Equal(t, map[string]any{
			"url.path": "/a\ufffd", "http.response.status_code": int64(503), "ebpf.tls": false, "ebpf.request.duration": 0.25,
			"ebpf.causes": []any{
				map[string]any{"monitor": "process_cpu", "threshold": 80.0, "current": 93.5},
				map[string]any{"monitor": "http_error_rate", "threshold": 5.0, "current": 50.0, "uri": "/pay"},
			},
		}, record.Attributes().AsRaw())
		plain := first.ScopeLogs().At(0).LogRecords().At(1)
		require.True(t, plain.TraceID().IsEmpty() && plain.SpanID().IsEmpty() && !plain.Flags().IsSampled())
		require.Equal(t, plog.SeverityNumberInfo, plain.SeverityNumber())
		require.Equal(t, "WARN", resources.At(1).ScopeLogs().At(0).LogRecords().At(0).SeverityText())
	}
	require.Empty(t, b.Batches(nil))
}

// TestLogsAreSplit checks that messages keep to the limit, lose nothing, and that their size is not estimated too low.
func TestLogsAreSplit(t *testing.T) {
	const limit = 4096
	var in []*model.Logs
	for pid := range uint32(5) {
		logs := make([]model.Log, 40)
		for i := range logs {
			logs[i] = slowLog()
			logs[i].Attributes = append(logs[i].Attributes, model.Text("long", strings.Repeat("x", 10*i)))
		}
		in = append(in, &model.Logs{Process: &model.Process{ID: model.ProcessID{PID: pid}, Executable: "/bin/x"}, Logs: logs})
	}
	b, count := NewLogsBuilder("scope", "1"), 0
	for _, message := range b.batches(in, limit) {
		size := (&plog.ProtoMarshaler{}).LogsSize(message)
		require.Less(t, size, limit+1024)
		count += message.LogRecordCount()
	}
	require.Equal(t, 5*40, count)
	whole := b.batches(in[:1], 1<<30)
	require.Len(t, whole, 1)
	require.LessOrEqual(t, (&plog.ProtoMarshaler{}).LogsSize(whole[0]), b.size)
	require.Less(t, b.size, 2*(&plog.ProtoMarshaler{}).LogsSize(whole[0]))
	require.Len(t, b.batches(in[:1], 1), 40, "one log at least")
}

// requestAttributes are as many and as long as those of a log of a request.
var requestAttributes = []model.Attribute{
	model.Text("http.request.method", "GET"), model.Text("http.route", "/orders/{id}"), model.Int("http.response.status_code", 200),
	model.Text("network.protocol.name", "http"), model.Text("network.protocol.version", "1.1"), model.Text("url.scheme", "http"),
	model.Text("url.path", "/orders/4711"), model.Text("user_agent.original", "test"), model.Text("server.address", "192.0.2.1"), model.Int("server.port", 8080),
	model.Int("http.request.body.size", 0), model.Int("http.response.body.size", 18), model.Int("http.request.size", 60), model.Int("http.response.size", 180),
	model.Text("ebpf.role", "server"), model.Float("ebpf.request.duration", 0.0001), model.Text("network.transport", "tcp"),
	model.Text("network.type", "ipv4"), model.Text("network.peer.address", "192.0.2.7"), model.Int("ebpf.peer.pid", 4711), model.Text("service.peer.name", "shop"),
}

func BenchmarkLogs(b *testing.B) {
	process := &model.Process{ID: model.ProcessID{PID: 7}}
	logs := make([]model.Log, 1000)
	for i := range logs {
		logs[i] = slowLog()
		logs[i].Attributes = slices.Clone(requestAttributes)
		for n, a := range logs[i].Attributes { // those that differ from request to request
			switch a.Key {
			case "url.path":
				logs[i].Attributes[n].Value.Text = fmt.Sprint("/orders/", i)
			case "ebpf.request.duration":
				logs[i].Attributes[n] = model.Float(a.Key, float64(i))
			}
		}
	}
	builder := NewLogsBuilder("scope", "1")
	b.ReportAllocs()
	for b.Loop() {
		builder.Batches([]*model.Logs{{Process: process, Logs: logs}})
	}
}
