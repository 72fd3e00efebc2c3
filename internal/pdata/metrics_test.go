// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

var (
	bytesSent = &model.Descriptor{Name: "ebpf.network.io", Unit: "By", Description: "Bytes.", Instrument: model.Sum}
	open      = &model.Descriptor{Name: "ebpf.network.connections", Unit: "{connection}", Instrument: model.UpDownSum}
	load1     = &model.Descriptor{Name: "system.cpu.load_average.1m", Unit: "1", Instrument: model.Gauge}
	spread    = &model.Descriptor{Name: "http.server.request.duration", Unit: "s", Instrument: model.Distribution, Bounds: []float64{1}}
	took      = &model.Descriptor{
		Name: "ebpf.network.operation.duration", Unit: "s", Instrument: model.Distribution, Bounds: []float64{0.001, 0.1, 1},
	}
)

func newTestMetricsBuilder() *MetricsBuilder { return NewMetricsBuilder("test/scope", "1.2.3") }

func metricsRoundTrip(t require.TestingT, m pmetric.Metrics) pmetric.Metrics {
	m.MarkReadOnly()
	raw, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(m)
	require.NoError(t, err)
	out, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(raw)
	require.NoError(t, err)
	return out
}

// counted is what a process with two peers counted until at.
func counted(at time.Time) *model.Metrics {
	peer := func(address string, tls bool) []model.Attribute {
		return []model.Attribute{
			model.Text("network.peer.address", address), model.Int("network.peer.port", 443), model.Bool("ebpf.tls", tls),
		}
	}
	near, far := peer("::1", false), peer("192.0.2.7", true)
	later := start.Add(time.Second)
	return &model.Metrics{
		Process: full().Process, Time: at,
		Metrics: []model.Metric{
			{Descriptor: bytesSent, Points: []model.Point{
				{Attributes: near, Start: start, Int: 1 << 40}, {Attributes: far, Start: later, Int: 0},
			}},
			{Descriptor: open, Points: []model.Point{{Attributes: far, Start: start, Int: -3}}},
			{Descriptor: load1, Points: []model.Point{{Float: 0.25, IsFloat: true}}},
			{Descriptor: took, Points: []model.Point{
				{Attributes: near, Start: start, Histogram: &model.Histogram{Buckets: make([]uint64, 4)}},
				{Attributes: far, Start: later, Histogram: &model.Histogram{
					Count: 6, Sum: 2.5, Min: 0.0004, Max: 1.5, Buckets: []uint64{3, 2, 0, 1},
				}},
			}},
			{Descriptor: &model.Descriptor{Name: "without.points"}},
		},
	}
}

func TestMetricsContent(t *testing.T) {
	at := start.Add(5 * time.Second)
	host := &model.Metrics{Time: at, Metrics: []model.Metric{{Descriptor: load1, Points: []model.Point{{Int: 2}}}}}
	messages := newTestMetricsBuilder().Batches([]*model.Metrics{counted(at), host})
	require.Len(t, messages, 1)
	out := metricsRoundTrip(t, messages[0])
	require.Equal(t, 2, out.ResourceMetrics().Len())
	require.Empty(t, out.ResourceMetrics().At(1).Resource().Attributes().AsRaw(), "the host's")

	rm := out.ResourceMetrics().At(0)
	want := pcommon.NewMap()
	PutProcess(want, full().Process)
	require.Equal(t, want.AsRaw(), rm.Resource().Attributes().AsRaw())
	require.Equal(t, SchemaURL, rm.SchemaUrl())
	require.Equal(t, 1, rm.ScopeMetrics().Len())
	scope := rm.ScopeMetrics().At(0)
	require.Equal(t, SchemaURL, scope.SchemaUrl())
	require.Equal(t, "test/scope", scope.Scope().Name())
	require.Equal(t, "1.2.3", scope.Scope().Version())
	require.Equal(t, 4, scope.Metrics().Len())

	near := map[string]any{"network.peer.address": "::1", "network.peer.port": int64(443), "ebpf.tls": false}
	far := map[string]any{"network.peer.address": "192.0.2.7", "network.peer.port": int64(443), "ebpf.tls": true}
	later := start.Add(time.Second)

	sum := scope.Metrics().At(0)
	require.Equal(t, []string{"ebpf.network.io", "By", "Bytes."}, []string{sum.Name(), sum.Unit(), sum.Description()})
	require.True(t, sum.Sum().IsMonotonic())
	require.Equal(t, pmetric.AggregationTemporalityCumulative, sum.Sum().AggregationTemporality())
	require.Equal(t, 2, sum.Sum().DataPoints().Len())
	requireNumber(t, sum.Sum().DataPoints().At(0), near, start, at, int64(1<<40))
	requireNumber(t, sum.Sum().DataPoints().At(1), far, later, at, int64(0))

	upDown := scope.Metrics().At(1)
	require.False(t, upDown.Sum().IsMonotonic())
	require.Equal(t, pmetric.AggregationTemporalityCumulative, upDown.Sum().AggregationTemporality())
	requireNumber(t, upDown.Sum().DataPoints().At(0), far, start, at, int64(-3))

	requireNumber(t, scope.Metrics().At(2).Gauge().DataPoints().At(0), map[string]any{}, time.Unix(0, 0), at, 0.25)

	histogram := scope.Metrics().At(3)
	require.Equal(t, "s", histogram.Unit())
	require.Equal(t, pmetric.AggregationTemporalityCumulative, histogram.Histogram().AggregationTemporality())
	empty, filled := histogram.Histogram().DataPoints().At(0), histogram.Histogram().DataPoints().At(1)
	require.False(t, empty.HasMin() || empty.HasMax(), "nothing was the least or the most")
	require.Equal(t, []uint64{0, 0, 0, 0}, empty.BucketCounts().AsRaw())
	require.Equal(t, far, filled.Attributes().AsRaw())
	require.Equal(t, []time.Time{later, at}, []time.Time{filled.StartTimestamp().AsTime(), filled.Timestamp().AsTime()})
	require.EqualValues(t, 6, filled.Count())
	require.Equal(t, []float64{2.5, 0.0004, 1.5}, []float64{filled.Sum(), filled.Min(), filled.Max()})
	require.Equal(t, []float64{0.001, 0.1, 1}, filled.ExplicitBounds().AsRaw())
	require.Equal(t, []uint64{3, 2, 0, 1}, filled.BucketCounts().AsRaw())
}

func requireNumber(t *testing.T, p pmetric.NumberDataPoint, attributes map[string]any, from, at time.Time, value any) {
	t.Helper()
	require.Equal(t, attributes, p.Attributes().AsRaw())
	require.Equal(t, []time.Time{from.UTC(), at}, []time.Time{p.StartTimestamp().AsTime(), p.Timestamp().AsTime()})
	if p.ValueType() == pmetric.NumberDataPointValueTypeDouble {
		require.Equal(t, value, p.DoubleValue())
		return
	}
	require.Equal(t, value, p.IntValue())
}

// TestMetricsOfOneProcess checks that a process has one resource, and a metric one entry in it.
func TestMetricsOfOneProcess(t *testing.T) {
	first, second := counted(start), counted(start.Add(time.Second))
	second.Process = first.Process
	messages := newTestMetricsBuilder().Batches([]*model.Metrics{first, second})
	require.Len(t, messages, 1)
	require.Equal(t, 1, messages[0].ResourceMetrics().Len())
	metrics := messages[0].ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	require.Equal(t, 4, metrics.Len())
	points := metrics.At(0).Sum().DataPoints()
	require.Equal(t, 4, points.Len())
	require.Equal(t, start, points.At(0).Timestamp().AsTime())
	require.Equal(t, start.Add(time.Second), points.At(2).Timestamp().AsTime())
}

func TestNoMetrics(t *testing.T) {
	require.Empty(t, newTestMetricsBuilder().Batches(nil))
	require.Empty(t, newTestMetricsBuilder().Batches([]*model.Metrics{{Metrics: []model.Metric{{Descriptor: bytesSent}}}}))
}

// series are n points of one process, half of them histograms.
func series(processes, n int) (out []*model.Metrics) {
	for i := range processes {
		process := *full().Process
		process.ID.PID = uint32(i + 1)
		sums, histograms := model.Metric{Descriptor: bytesSent}, model.Metric{Descriptor: took}
		for k := range n / processes / 2 {
			attributes := []model.Attribute{
				model.Text("network.io.direction", "transmit"), model.Text("ebpf.role", "client"),
				model.Text("network.peer.address", fmt.Sprintf("10.0.%d.%d", k/250, k%250)), model.Int("network.peer.port", 443),
				model.Text("network.transport", "tcp"), model.Text("network.type", "ipv4"), model.Bool("ebpf.tls", false),
			}
			sums.Points = append(sums.Points, model.Point{Attributes: attributes, Start: start, Int: int64(k) << 20})
			histograms.Points = append(histograms.Points, model.Point{Attributes: attributes, Start: start, Histogram: &model.Histogram{
				Count: uint64(k + 1), Sum: float64(k), Min: 1e-6, Max: 2, Buckets: []uint64{uint64(k), 1, 0, 0},
			}})
		}
		out = append(out, &model.Metrics{Process: &process, Time: start.Add(time.Minute), Metrics: []model.Metric{sums, histograms}})
	}
	return out
}

// pointsOf returns all points of messages, by everything that identifies them.
func pointsOf(t require.TestingT, messages ...pmetric.Metrics) map[string]string {
	out := map[string]string{}
	note := func(key, value string) {
		require.NotContains(t, out, key, "no point twice")
		out[key] = value
	}
	for _, m := range messages {
		for _, rm := range m.ResourceMetrics().All() {
			for _, metric := range rm.ScopeMetrics().At(0).Metrics().All() {
				of := fmt.Sprint(rm.Resource().Attributes().AsRaw(), metric.Name(), metric.Unit(), metric.Type())
				for _, p := range numbers(metric).All() {
					note(fmt.Sprint(of, p.Attributes().AsRaw(), p.Timestamp()), fmt.Sprint(p.StartTimestamp(), p.IntValue(), p.DoubleValue()))
				}
				if metric.Type() != pmetric.MetricTypeHistogram {
					continue
				}
				for _, p := range metric.Histogram().DataPoints().All() {
					require.Equal(t, p.ExplicitBounds().Len()+1, p.BucketCounts().Len())
					note(fmt.Sprint(of, p.Attributes().AsRaw(), p.Timestamp()),
						fmt.Sprint(p.StartTimestamp(), p.Count(), p.Sum(), p.Min(), p.Max(), p.BucketCounts().AsRaw()))
				}
			}
		}
	}
	return out
}

func numbers(metric pmetric.Metric) pmetric.NumberDataPointSlice {
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		return metric.Sum().DataPoints()
	case pmetric.MetricTypeGauge:
		return metric.Gauge().DataPoints()
	}
	return pmetric.NewNumberDataPointSlice()
}

func TestMetricsSplitByBytes(t *testing.T) {
	in := series(3, 3000)
	whole := newTestMetricsBuilder().batches(in, 1<<30)
	require.Len(t, whole, 1)
	require.Len(t, pointsOf(t, whole...), 3000)
	for _, limit := range []int{1, 1000, 10_000, 100_000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			batches := newTestMetricsBuilder().batches(in, limit)
			require.Equal(t, pointsOf(t, whole...), pointsOf(t, batches...))
			for i, m := range batches {
				size := (&pmetric.ProtoMarshaler{}).MetricsSize(m)
				require.Positive(t, m.DataPointCount())
				require.Less(t, size, limit+2000)
				if limit >= 10_000 && i < len(batches)-1 {
					require.Greater(t, size, limit*6/10, "not split more than needed")
				}
			}
			if limit == 1 {
				require.Len(t, batches, 3000, "at least one point")
			}
		})
	}
	require.Len(t, newTestMetricsBuilder().Batches(in), 1)
	require.Greater(t, len(newTestMetricsBuilder().Batches(series(1, 40_000))), 1)
}

// requireMetricsSize holds that the estimate is never too low.
func requireMetricsSize(t require.TestingT, in []*model.Metrics) (estimate, size int) {
	b := newTestMetricsBuilder()
	b.begin()
	for _, m := range in {
		for i := range m.Metrics {
			if points := m.Metrics[i].Points; len(points) > 0 {
				b.add(m, m.Metrics[i].Descriptor, points, 1<<30)
			}
		}
	}
	estimate = b.size
	size = (&pmetric.ProtoMarshaler{}).MetricsSize(b.end())
	require.GreaterOrEqual(t, estimate, size)
	return estimate, size
}

func TestMetricsSizeIsAnUpperBound(t *testing.T) {
	requireMetricsSize(t, nil)
	extreme := counted(time.Unix(1<<33, 0))
	extreme.Metrics[0].Points[0].Int = -1
	extreme.Metrics[3].Points[1].Histogram.Count = 1<<64 - 1
	requireMetricsSize(t, []*model.Metrics{extreme})
	estimate, size := requireMetricsSize(t, series(10, 1000))
	require.Less(t, estimate, 2*size)
}

// TestExponentialHistograms holds what becomes of them, also where a message has explicit ones of the same metric, as after a change of the configuration.
func TestExponentialHistograms(t *testing.T) {
	at := start.Add(time.Second)
	point := model.Point{Attributes: []model.Attribute{model.Text("a", "b")}, Start: start, Histogram: &model.Histogram{
		Count: 6, Sum: 2.5, Min: 0, Max: 1.5, Buckets: []uint64{3, 0, 1},
		Exponential: &model.Exponential{Scale: -1, Offset: -2, ZeroCount: 2, ZeroThreshold: 0.125},
	}}
	explicit := model.Point{Start: start, Histogram: &model.Histogram{Count: 1, Buckets: []uint64{1, 0}}}
	in := []*model.Metrics{
		{Process: full().Process, Time: at, Metrics: []model.Metric{{Descriptor: spread, Points: []model.Point{point}}}},
		{Process: full().Process, Time: at, Metrics: []model.Metric{{Descriptor: spread, Points: []model.Point{explicit}}}},
	}
	messages := newTestMetricsBuilder().Batches(in)
	require.Len(t, messages, 1)
	metrics := metricsRoundTrip(t, messages[0]).ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	require.Equal(t, 2, metrics.Len())
	require.Equal(t, "s", metrics.At(0).Unit())
	require.Equal(t, pmetric.AggregationTemporalityCumulative, metrics.At(0).ExponentialHistogram().AggregationTemporality())
	got := metrics.At(0).ExponentialHistogram().DataPoints().At(0)
	require.Equal(t, map[string]any{"a": "b"}, got.Attributes().AsRaw())
	require.Equal(t, []time.Time{start, at}, []time.Time{got.StartTimestamp().AsTime(), got.Timestamp().AsTime()})
	require.Equal(t, []uint64{6, 2}, []uint64{got.Count(), got.ZeroCount()})
	require.Equal(t, []float64{2.5, 0, 1.5, 0.125}, []float64{got.Sum(), got.Min(), got.Max(), got.ZeroThreshold()})
	require.Equal(t, []int32{-1, -2}, []int32{got.Scale(), got.Positive().Offset()})
	require.Equal(t, []uint64{3, 0, 1}, got.Positive().BucketCounts().AsRaw())
	require.Zero(t, got.Negative().BucketCounts().Len())
	require.Equal(t, []uint64{1, 0}, metrics.At(1).Histogram().DataPoints().At(0).BucketCounts().AsRaw())
	extreme := *point.Histogram
	extreme.Buckets = make([]uint64, 160)
	for i := range extreme.Buckets {
		extreme.Buckets[i] = 1<<64 - 1
	}
	extreme.Exponential = &model.Exponential{Scale: -4, Offset: -1 << 31, ZeroCount: 1<<64 - 1, ZeroThreshold: 1}
	in[0].Metrics[0].Points = append(in[0].Metrics[0].Points, model.Point{Start: start, Histogram: &extreme})
	requireMetricsSize(t, in)
}

// TestMetricsOfATask checks that each point says whose it is, so that it is no point of the series that is always counted.
func TestMetricsOfATask(t *testing.T) {
	process := &model.Process{ID: model.ProcessID{PID: 7}}
	point := []model.Point{{Attributes: []model.Attribute{model.Text("a", "b")}, Int: 1}}
	in := []*model.Metrics{
		{Process: process, Metrics: []model.Metric{{Descriptor: bytesSent, Points: point}}},
		{Process: process, TaskID: "0123", Metrics: []model.Metric{{Descriptor: bytesSent, Points: point}}},
	}
	messages := newTestMetricsBuilder().Batches(in)
	require.Len(t, messages, 1)
	points := messages[0].ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints()
	require.Equal(t, 2, points.Len())
	require.Equal(t, map[string]any{"a": "b"}, points.At(0).Attributes().AsRaw())
	require.Equal(t, map[string]any{"a": "b", "ebpf.task.id": "0123"}, points.At(1).Attributes().AsRaw())
	requireMetricsSize(t, in)
}
