// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// MetricsBuilder turns model metrics into OTLP metrics. It is reused from
// interval to interval and not safe for concurrent use. It keeps no model value
// after a method has returned.
type MetricsBuilder struct {
	from instrumentation

	out pmetric.Metrics
	// size is an upper bound of the message's bytes in protobuf.
	size int
	// scopes has the one scope of each process's resource, metrics what each of
	// its metrics became.
	scopes  map[*model.Process]pmetric.ScopeMetrics
	metrics map[metricKey]pmetric.Metric
}

// metricKey is the identity of a metric in a message.
type metricKey struct {
	process    *model.Process
	descriptor *model.Descriptor
}

// NewMetricsBuilder returns a builder whose metrics come from the named
// instrumentation scope.
func NewMetricsBuilder(scopeName, scopeVersion string) *MetricsBuilder {
	return &MetricsBuilder{
		from:    instrumentation{scopeName, scopeVersion},
		scopes:  map[*model.Process]pmetric.ScopeMetrics{},
		metrics: map[metricKey]pmetric.Metric{},
	}
}

// Batches puts the points into as many messages as it takes to have about
// [MaxBatchBytes] in each. A metric that does not fit is continued in the next
// message. Metrics without points leave no trace. A message holds at least one
// point, even when that exceeds the limit.
func (b *MetricsBuilder) Batches(in []*model.Metrics) []pmetric.Metrics {
	return b.batches(in, MaxBatchBytes)
}

func (b *MetricsBuilder) batches(in []*model.Metrics, maxBytes int) []pmetric.Metrics {
	var out []pmetric.Metrics
	b.begin()
	for _, m := range in {
		for i := range m.Metrics {
			points := m.Metrics[i].Points
			for len(points) > 0 {
				if b.size >= maxBytes {
					out = append(out, b.end())
					b.begin()
				}
				points = points[b.add(m, m.Metrics[i].Descriptor, points, maxBytes):]
			}
		}
	}
	if last := b.end(); last.ResourceMetrics().Len() > 0 {
		out = append(out, last)
	}
	return out
}

func (b *MetricsBuilder) begin() {
	b.out, b.size = pmetric.NewMetrics(), 0
}

// end returns the message and forgets it.
func (b *MetricsBuilder) end() pmetric.Metrics {
	out := b.out
	b.out = pmetric.Metrics{}
	clear(b.scopes)
	clear(b.metrics)
	return out
}

// add writes points until the message has reached maxBytes, at least one, and
// returns how many it wrote.
func (b *MetricsBuilder) add(m *model.Metrics, d *model.Descriptor, points []model.Point, maxBytes int) int {
	metric := b.metric(m.Process, d)
	at := timestamp(m.Time)
	grow(metric, min(len(points), 1+(maxBytes-b.size)/sizeNumberPoint))
	for i := range points {
		if i > 0 && b.size >= maxBytes {
			return i
		}
		b.size += addPoint(metric, d, &points[i], at, m.TaskID)
	}
	return len(points)
}

// metric returns where the points of a process's metric go.
func (b *MetricsBuilder) metric(process *model.Process, d *model.Descriptor) pmetric.Metric {
	key := metricKey{process, d}
	if metric, ok := b.metrics[key]; ok {
		return metric
	}
	metric := b.scope(process).Metrics().AppendEmpty()
	metric.SetName(d.Name)
	metric.SetUnit(d.Unit)
	metric.SetDescription(d.Description)
	setInstrument(metric, d.Instrument)
	b.metrics[key] = metric
	b.size += sizeMetric + sizeString(len(d.Name)) + sizeString(len(d.Unit)) + sizeString(len(d.Description))
	return metric
}

// setInstrument makes sums and histograms cumulative.
func setInstrument(metric pmetric.Metric, instrument model.Instrument) {
	const cumulative = pmetric.AggregationTemporalityCumulative
	switch instrument {
	case model.Sum, model.UpDownSum:
		sum := metric.SetEmptySum()
		sum.SetIsMonotonic(instrument == model.Sum)
		sum.SetAggregationTemporality(cumulative)
	case model.Gauge:
		metric.SetEmptyGauge()
	case model.Distribution:
		metric.SetEmptyHistogram().SetAggregationTemporality(cumulative)
	}
}

// scope returns where the metrics of a process go, in a resource of its own.
func (b *MetricsBuilder) scope(process *model.Process) pmetric.ScopeMetrics {
	if scope, ok := b.scopes[process]; ok {
		return scope
	}
	resource := b.out.ResourceMetrics().AppendEmpty()
	scope := resource.ScopeMetrics().AppendEmpty()
	b.scopes[process] = scope
	b.size += b.from.put(resource, scope, process)
	return scope
}
