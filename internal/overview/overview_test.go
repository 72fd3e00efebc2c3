// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// message is metrics of one resource in OTLP/JSON.
type message struct {
	all     pmetric.Metrics
	metrics pmetric.MetricSlice
}

func newMessage(resource map[string]any) message {
	all := pmetric.NewMetrics()
	r := all.ResourceMetrics().AppendEmpty()
	_ = r.Resource().Attributes().FromRaw(resource)
	return message{all, r.ScopeMetrics().AppendEmpty().Metrics()}
}

func (m message) json(t testing.TB) []byte {
	text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(m.all)
	require.NoError(t, err)
	return text
}

// histogram adds a point whose buckets are below 10 ms, below 100 ms and above.
func (m message) histogram(name string, attributes map[string]any, began, now time.Time, buckets ...uint64) pmetric.HistogramDataPoint {
	metric := m.metrics.AppendEmpty()
	metric.SetName(name)
	p := metric.SetEmptyHistogram().DataPoints().AppendEmpty()
	_ = p.Attributes().FromRaw(attributes)
	p.SetStartTimestamp(pcommon.NewTimestampFromTime(began))
	p.SetTimestamp(pcommon.NewTimestampFromTime(now))
	p.ExplicitBounds().FromRaw([]float64{0.01, 0.1})
	p.BucketCounts().FromRaw(buckets)
	for _, n := range buckets {
		p.SetCount(p.Count() + n)
	}
	return p
}

func (m message) sum(name string, attributes map[string]any, began, now time.Time, value int64) {
	metric := m.metrics.AppendEmpty()
	metric.SetName(name)
	metric.SetEmptySum().SetIsMonotonic(name != "ebpf.network.connections")
	p := metric.Sum().DataPoints().AppendEmpty()
	_ = p.Attributes().FromRaw(attributes)
	p.SetStartTimestamp(pcommon.NewTimestampFromTime(began))
	p.SetTimestamp(pcommon.NewTimestampFromTime(now))
	p.SetIntValue(value)
}

func get(status int) map[string]any {
	out := map[string]any{"http.request.method": "GET", "http.route": "/pay", "http.response.status_code": status}
	if status >= 500 {
		out["error.type"] = fmt.Sprint(status)
	}
	return out
}

// TestRequests holds rates, errors and quantiles of the window for what two processes count cumulatively; what they count
// is the truth.
func TestRequests(t *testing.T) {
	o := New(start, 20*time.Second)
	for second := 5; second <= 60; second += 5 {
		n := uint64(second)
		for pid := 1; pid <= 2; pid++ {
			m := newMessage(map[string]any{"service.name": "shop", "process.pid": pid})
			m.histogram("http.server.request.duration", get(200), start, at(second), 8*n, 0, 0)
			m.histogram("http.server.request.duration", get(503), start, at(second), 0, 2*n, 0)
			m.histogram("http.server.request.duration", map[string]any{"ebpf.task.id": "1"}, start, at(second), n, n, n)
			require.NoError(t, o.AddMetrics(m.json(t)))
		}
	}
	require.Len(t, o.Requests(), 1)
	r := o.Requests()[0]
	require.Equal(t, Request{
		Side: "server", Service: "shop", Endpoint: "GET /pay", Rate: 20, Errors: 0.2, Count: 400, Statuses: []Status{{"200", 320}, {"503", 80}},
		Timed: true, Median: 0.00625, P95: 0.0775,
	}, r)
	require.Equal(t, "503×80", r.Statuses[1].String())

	m := newMessage(map[string]any{"service.name": "other"})
	m.histogram("dns.lookup.duration", map[string]any{"dns.question.name": "a.example", "error.type": "nxdomain"}, at(90), at(90), 1, 0, 0)
	require.NoError(t, o.AddMetrics(m.json(t)))
	require.Len(t, o.Requests(), 1, "what ended before the window is left out")
	require.Equal(t, "a.example", o.Requests()[0].Endpoint)
	require.InDelta(t, 1.0/20, o.Requests()[0].Rate, 1e-9)
	require.Equal(t, []Status{{"nxdomain", 1}}, o.Requests()[0].Statuses)
}

// TestSeriesThatBeganBefore checks that what was counted before the observation is left out, and that a restart is not a
// negative count.
func TestSeriesThatBeganBefore(t *testing.T) {
	o := New(start, time.Minute)
	add := func(began, now int, n uint64) {
		m := newMessage(map[string]any{"service.name": "shop"})
		m.histogram("http.client.request.duration", get(200), at(began), at(now), n, 0, 0)
		require.NoError(t, o.AddMetrics(m.json(t)))
	}
	add(-100, 5, 1000)
	require.Empty(t, o.Requests())
	add(-100, 10, 1007)
	require.EqualValues(t, 7, o.Requests()[0].Count)
	add(12, 15, 3)
	require.EqualValues(t, 10, o.Requests()[0].Count)
}

// TestEndpoints holds the names of what is asked for, by protocol.
func TestEndpoints(t *testing.T) {
	for want, attributes := range map[string]map[string]any{
		"GET /pay":               get(200),
		"shop.Cart/Add":          {"rpc.method": "shop.Cart/Add", "http.request.method": "POST"},
		"a.example":              {"dns.question.name": "a.example"},
		"mysql SELECT carts":     {"db.system.name": "mysql", "db.operation.name": "SELECT", "db.collection.name": "carts"},
		"kafka publish payments": {"messaging.system": "kafka", "messaging.operation.name": "publish", "messaging.destination.name": "payments"},
		"(all others)":           {"otel.metric.overflow": true},
		"(unknown)":              {},
	} {
		a := pcommon.NewMap()
		require.NoError(t, a.FromRaw(attributes))
		require.Equal(t, want, endpoint(a))
	}
}

func TestQuantiles(t *testing.T) {
	for name, tt := range map[string]struct {
		buckets         []int64
		lowest, highest float64
		q, want         float64
	}{
		"within a bucket":        {[]int64{0, 10, 0}, 0, 1, 0.5, 0.055},
		"between the extremes":   {[]int64{10, 0, 0}, 0.002, 0.004, 0.5, 0.003},
		"above the last bound":   {[]int64{0, 0, 4}, 0.1, 0.5, 0.5, 0.3},
		"empty buckets between":  {[]int64{1, 0, 1}, 0, 1, 0.5, 0.01},
		"all of the first":       {[]int64{4, 0, 0}, 0, 1, 1, 0.01},
		"a highest that is gone": {[]int64{0, 4, 0}, 0.02, 0.03, 1, 0.03},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := point{bounds: []float64{0.01, 0.1}, buckets: tt.buckets, lowest: tt.lowest, highest: tt.highest}.quantile(tt.q)
			require.True(t, ok)
			require.InDelta(t, tt.want, got, 1e-12)
		})
	}
	_, ok := point{count: 3}.quantile(0.5)
	require.False(t, ok, "no buckets")
}

// TestConnections checks bytes, round-trip times and failures of a pair of services over all of its series, whatever their attributes.
func TestConnections(t *testing.T) {
	o := New(start, time.Minute)
	m := newMessage(map[string]any{"service.name": "web", "service.instance.id": "1"})
	peerOf := func(more map[string]any) map[string]any {
		out := map[string]any{"ebpf.role": "client", "network.transport": "tcp", "service.peer.name": "shop", "network.protocol.name": "http"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for pid := 1; pid <= 2; pid++ {
		m.sum("ebpf.network.io", peerOf(map[string]any{"ebpf.peer.pid": pid, "network.io.direction": "transmit"}), start, at(10), 1000)
		m.sum("ebpf.network.io", peerOf(map[string]any{"ebpf.peer.pid": pid, "network.io.direction": "receive"}), start, at(10), 50)
		m.sum("ebpf.network.connections", peerOf(map[string]any{"ebpf.peer.pid": pid, "network.connection.state": "established"}), start, at(10), 3)
	}
	m.sum("ebpf.network.connections", peerOf(map[string]any{"network.connection.state": "close_wait"}), start, at(10), 9)
	m.sum("ebpf.tcp.retransmits", peerOf(nil), start, at(10), 4)
	m.sum("ebpf.tcp.connection.failures", peerOf(map[string]any{"error.type": "timeout"}), start, at(10), 1)
	m.histogram("ebpf.tcp.rtt", peerOf(nil), start, at(10), 2, 0, 0)
	m.sum("ebpf.network.io", map[string]any{"ebpf.role": "client", "network.peer.address": "2001:db8::1", "network.peer.port": 443}, start, at(10), 10)
	require.NoError(t, o.AddMetrics(m.json(t)))
	require.Equal(t, []Connection{
		{Service: "web", Role: "client", Peer: "shop", Protocol: "http", Open: 6, Sent: 200, Received: 10, RTT: 0.005, Timed: true, Retransmits: 4, Failures: 1},
		{Service: "web", Role: "client", Peer: "[2001:db8::1]:443", Sent: 1},
	}, o.Connections())

	later := newMessage(nil)
	later.sum("ebpf.network.connections", nil, start, at(200), 1)
	require.NoError(t, o.AddMetrics(later.json(t)))
	require.Empty(t, o.Connections())
}

func TestTriggers(t *testing.T) {
	o := New(start, time.Minute)
	add := func(second int, name string, attributes map[string]any) {
		all := plog.NewLogs()
		r := all.ResourceLogs().AppendEmpty()
		r.Resource().Attributes().PutStr("service.name", "shop")
		record := r.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		record.SetEventName(name)
		record.SetTimestamp(pcommon.NewTimestampFromTime(at(second)))
		require.NoError(t, record.Attributes().FromRaw(attributes))
		text, err := (&plog.JSONMarshaler{}).MarshalLogs(all)
		require.NoError(t, err)
		require.NoError(t, o.AddLogs(text))
	}
	fire := func(second int, task string) {
		add(second, "ebpf.profiling.triggered", map[string]any{
			"ebpf.policy": "slow", "ebpf.task.id": task, "ebpf.task.state": "queued",
			"ebpf.causes": []any{
				map[string]any{"monitor": "http_avg_response_time", "threshold": 100.0, "current": 1234.5, "uri": "/pay"},
				map[string]any{"monitor": "process_cpu", "threshold": 50.0, "current": 66.66},
			},
		})
	}
	fire(-1, "0") // before the observation
	fire(1, "1")
	add(2, "ebpf.task.started", map[string]any{"ebpf.task.id": "1", "ebpf.task.kind": "off_cpu"})
	fire(3, "2")
	add(4, "ebpf.task.finished", map[string]any{"ebpf.task.id": "1", "ebpf.task.kind": "off_cpu"})
	const causes = "1234 ≥ 100 http_avg_response_time /pay; 66.7 ≥ 50 process_cpu"
	require.Equal(t, []Trigger{
		{Time: at(3), Policy: "slow", Service: "shop", Causes: causes, Task: "2", State: "queued"},
		{Time: at(1), Policy: "slow", Service: "shop", Causes: causes, Task: "1", State: "finished", Kind: "off_cpu"},
	}, o.Triggers())
	for i := range 2 * maxTriggers {
		fire(10+i, "x")
	}
	require.Len(t, o.Triggers(), maxTriggers)
}

// TestBounds checks that neither series nor rows grow without end, and that what is left out is counted.
func TestBounds(t *testing.T) {
	o := New(start, time.Minute)
	many := newMessage(map[string]any{"service.name": "web"})
	for i := range maxRows + 10 {
		many.histogram("http.server.request.duration", map[string]any{"http.request.method": "GET", "http.route": fmt.Sprint("/", i)}, start, at(1), 1, 0, 0)
	}
	require.NoError(t, o.AddMetrics(many.json(t)))
	require.Len(t, o.requests, maxRows)
	require.Equal(t, 10, o.Excess)
	m := newMessage(nil)
	m.histogram("dns.lookup.duration", nil, at(2000), at(2000), 1, 0, 0)
	require.NoError(t, o.AddMetrics(m.json(t)))
	require.Len(t, o.series, 1, "series without points are forgotten")
	require.Empty(t, o.requests, "and there was no room for the last one")
}

func TestNotReadable(t *testing.T) {
	o := New(start, time.Minute)
	require.ErrorContains(t, o.AddMetrics([]byte("{x}")), "parsing metrics in OTLP JSON of 3 bytes: ")
	require.ErrorContains(t, o.AddLogs([]byte("{x}")), "parsing logs in OTLP JSON of 3 bytes: ")
	require.True(t, o.Latest().IsZero())
}

// FuzzMessages checks that no message stops the program.
func FuzzMessages(f *testing.F) {
	m := newMessage(map[string]any{"service.name": "shop"})
	m.histogram("http.server.request.duration", get(503), start, at(5), 1, 2, 3).SetMax(2)
	m.sum("ebpf.network.io", map[string]any{"ebpf.role": "server"}, start, at(5), 1)
	f.Add(m.json(f))
	f.Add([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"eventName":"ebpf.profiling.triggered","attributes":[{"key":"ebpf.causes","value":{"arrayValue":{"values":[{"stringValue":"x"}]}}}]}]}]}]}`))
	f.Fuzz(func(_ *testing.T, line []byte) {
		o := New(time.Time{}, time.Minute)
		for range 2 {
			_ = o.AddMetrics(line)
			_ = o.AddLogs(line)
			o.Requests()
			o.Connections()
			o.Triggers()
		}
	})
}
