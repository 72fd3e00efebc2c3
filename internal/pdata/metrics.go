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
	// scopes has the one scope of each resource, metrics what each of
	// its metrics became.
	scopes  map[model.Resource]pmetric.ScopeMetrics
	metrics map[metricKey]pmetric.Metric
}

// metricKey is the identity of a metric in a message.
type metricKey struct {
	resource    model.Resource
	descriptor  *model.Descriptor
	exponential bool
}

// NewMetricsBuilder returns a builder whose metrics come from the named
// instrumentation scope.
func NewMetricsBuilder(scopeName, scopeVersion string) *MetricsBuilder {
	return &MetricsBuilder{
		from:    instrumentation{scopeName, scopeVersion},
		scopes:  map[model.Resource]pmetric.ScopeMetrics{},
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

// Messages returns a function that builds the messages of [MetricsBuilder.Batches] one by one, so that no more than one need be in memory. It returns false
// after the last one.
func (b *MetricsBuilder) Messages(in []*model.Metrics) func() (pmetric.Metrics, bool) {
	return b.messages(in, MaxBatchBytes)
}

func (b *MetricsBuilder) batches(in []*model.Metrics, maxBytes int) []pmetric.Metrics {
	return collect(b.messages(in, maxBytes))
}

func (b *MetricsBuilder) messages(in []*model.Metrics, maxBytes int) func() (pmetric.Metrics, bool) {
	var of, metric, point int // where the next message begins
	return func() (pmetric.Metrics, bool) {
		if of == len(in) {
			return pmetric.Metrics{}, false
		}
		b.begin()
		for ; of < len(in); of, metric = of+1, 0 {
			for m := in[of]; metric < len(m.Metrics); metric, point = metric+1, 0 {
				for points := m.Metrics[metric].Points; point < len(points); {
					if b.size >= maxBytes {
						return b.end(), true
					}
					point += b.add(m, m.Metrics[metric].Descriptor, points[point:], maxBytes)
				}
			}
		}
		last := b.end()
		return last, last.ResourceMetrics().Len() > 0
	}
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
	metric := b.metric(m.Process, d, isExponential(points))
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

// metric returns where the points of a metric of a process or service instance go.
func (b *MetricsBuilder) metric(process *model.Process, d *model.Descriptor, exponential bool) pmetric.Metric {
	key := metricKey{model.ResourceOf(process), d, exponential}
	if metric, ok := b.metrics[key]; ok {
		return metric
	}
	metric := b.scope(key.resource, process).Metrics().AppendEmpty()
	metric.SetName(d.Name)
	metric.SetUnit(d.Unit)
	metric.SetDescription(d.Description)
	setInstrument(metric, d.Instrument, exponential)
	b.metrics[key] = metric
	b.size += sizeMetric + sizeString(len(d.Name)) + sizeString(len(d.Unit)) + sizeString(len(d.Description))
	return metric
}

// isExponential reports whether points are those of exponential histograms: all of a metric are, or none.
func isExponential(points []model.Point) bool {
	return points[0].Histogram != nil && points[0].Histogram.Exponential != nil
}

// setInstrument makes sums and histograms cumulative.
func setInstrument(metric pmetric.Metric, instrument model.Instrument, exponential bool) {
	const cumulative = pmetric.AggregationTemporalityCumulative
	switch instrument {
	case model.Sum, model.UpDownSum:
		sum := metric.SetEmptySum()
		sum.SetIsMonotonic(instrument == model.Sum)
		sum.SetAggregationTemporality(cumulative)
	case model.Gauge:
		metric.SetEmptyGauge()
	case model.Distribution:
		if exponential {
			metric.SetEmptyExponentialHistogram().SetAggregationTemporality(cumulative)
			return
		}
		metric.SetEmptyHistogram().SetAggregationTemporality(cumulative)
	}
}

// scope returns the scope of a resource's metrics: several observations of one resource share a scope, since two resources with the same
// attributes would replace each other in exporters.
func (b *MetricsBuilder) scope(of model.Resource, process *model.Process) pmetric.ScopeMetrics {
	if scope, ok := b.scopes[of]; ok {
		return scope
	}
	resource := b.out.ResourceMetrics().AppendEmpty()
	scope := resource.ScopeMetrics().AppendEmpty()
	b.scopes[of] = scope
	b.size += b.from.put(resource, scope, process)
	return scope
}
