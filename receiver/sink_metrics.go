// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"reflect"
	"slices"
	"unsafe"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// maxPendingMetrics is how many intervals are kept for a consumer that refuses
// them for now: those of 40 seconds, as of profiles, by the default intervals.
const maxPendingMetrics = 20

// metricSink delivers metrics. Pending messages are not merged, though their points are
// cumulative: each interval is a point of a curve. A dropped message costs this point
// alone, since the next one has the same totals; only for series that have ended since
// it may cost what they counted last.
type metricSink struct {
	*sink
	next    consumer.Metrics
	builder *pdata.MetricsBuilder
	off     map[string]bool // names of metrics that are disabled
}

func newMetricSink(next consumer.Metrics, off map[string]bool, logger *zap.Logger, version string, maxBytes uint64) *metricSink {
	return &metricSink{
		sink:    newSink("metrics", logger, maxPendingMetrics, maxBytes),
		next:    next,
		builder: pdata.NewMetricsBuilder(scopeName, version),
		off:     off,
	}
}

// put hands over an interval.
func (s *metricSink) put(metrics []*model.Metrics) {
	for _, m := range metrics {
		m.Metrics = slices.DeleteFunc(m.Metrics, func(metric model.Metric) bool { return s.off[metric.Name] })
	}
	s.sink.put(&delivery{bytes: metricBytes(metrics), build: func() func() (message, bool) {
		return messages(s.builder.Messages(metrics), s.next.ConsumeMetrics)
	}})
}

// metricBytes estimates the memory of an interval. Attributes are shared and
// belong to the observation.
func metricBytes(metrics []*model.Metrics) uint64 {
	const point, histogram = uint64(unsafe.Sizeof(model.Point{})), uint64(unsafe.Sizeof(model.Histogram{}))
	const exponential = uint64(unsafe.Sizeof(model.Exponential{}))
	var bytes uint64
	for _, m := range metrics {
		for _, metric := range m.Metrics {
			bytes += point * uint64(len(metric.Points))
			for i := range metric.Points {
				if h := metric.Points[i].Histogram; h != nil {
					bytes += histogram + 8*uint64(len(h.Buckets))
					if h.Exponential != nil {
						bytes += exponential
					}
				}
			}
		}
	}
	return bytes
}

// turnedOff are the names of metrics or events that the configuration turns off; config
// has a field for each.
func turnedOff[C metadata.MetricsConfig | metadata.EventsConfig](config C) map[string]bool {
	off := map[string]bool{}
	all := reflect.ValueOf(config)
	for i := range all.NumField() {
		if !all.Field(i).FieldByName("Enabled").Bool() {
			off[all.Type().Field(i).Tag.Get(confmap.MapstructureTag)] = true
		}
	}
	return off
}
