// SPDX-License-Identifier: Apache-2.0

// Package overview adds up what the receiver reports of a host's requests, connections and triggers, from the OTLP/JSON
// lines of the Collector's file exporter.
//
// The sums and histograms there are cumulative: what counts is the difference between two points of a series. Resources
// are known by service.name, so that it does not matter how many processes or instances a service has.
package overview

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

const (
	// maxSeries and maxRows bound the memory: excess series and rows are counted in [Overview.Excess].
	maxSeries = 50_000
	maxRows   = 5_000
	// seriesAge is how long a series is kept without a point.
	seriesAge = 10 * time.Minute
)

// Overview is the state of a host within a time window. It is not safe for concurrent use.
type Overview struct {
	// since is the start of the observation: a series that is read for the first time counts as a whole if it began later, and from its
	// next point on otherwise.
	since time.Time
	// window is the time before the latest point that counts; 0: all.
	window time.Duration
	// first is when the earliest difference began, latest the time of the newest point.
	first, latest time.Time

	series      map[string]*series
	requests    map[requestKey]*requestRow
	connections map[connectionKey]*connectionRow
	triggers    []Trigger
	levels      map[string]Level // by kind
	// Excess is how many points did not count since there were too many series or rows.
	Excess int
}

// New returns an empty overview of a window that ends with the latest point; 0 is all that is read. What was counted
// before since is left out.
func New(since time.Time, window time.Duration) *Overview {
	return &Overview{
		since: since, window: window, series: map[string]*series{},
		requests: map[requestKey]*requestRow{}, connections: map[connectionKey]*connectionRow{}, levels: map[string]Level{},
	}
}

// Latest is the time of the newest point or record, zero before the first one.
func (o *Overview) Latest() time.Time { return o.latest }

// AddMetrics counts one message of metrics in OTLP/JSON.
func (o *Overview) AddMetrics(line []byte) error {
	message, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
	if err != nil {
		return fmt.Errorf("parsing metrics in OTLP JSON of %d bytes: %w", len(line), err)
	}
	for _, resource := range message.ResourceMetrics().All() {
		service := text(resource.Resource().Attributes(), "service.name")
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				o.addMetric(resource.Resource().Attributes(), service, metric)
			}
		}
	}
	o.forget()
	return nil
}

// addMetric counts the points of one metric, those of tasks excepted: they are in the metric's other points, too.
func (o *Overview) addMetric(resource pcommon.Map, service string, metric pmetric.Metric) {
	name := metric.Name()
	of := func(attributes pcommon.Map) (string, bool) {
		_, task := attributes.Get("ebpf.task.id")
		return identity(name, resource, attributes), !task
	}
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		if name == limitLevel {
			for _, p := range metric.Gauge().DataPoints().All() {
				o.addLevel(p)
			}
		}
	case pmetric.MetricTypeSum:
		for _, p := range metric.Sum().DataPoints().All() {
			if id, ok := of(p.Attributes()); ok {
				o.addSum(id, service, name, metric.Sum().IsMonotonic(), p)
			}
		}
	case pmetric.MetricTypeHistogram:
		for _, p := range metric.Histogram().DataPoints().All() {
			if id, ok := of(p.Attributes()); ok {
				o.addHistogram(id, service, name, fromHistogram(p), p.Attributes())
			}
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, p := range metric.ExponentialHistogram().DataPoints().All() {
			if id, ok := of(p.Attributes()); ok {
				o.addHistogram(id, service, name, fromExponential(p), p.Attributes())
			}
		}
	}
}

// AddLogs takes the triggers and tasks out of one message of logs in OTLP/JSON.
func (o *Overview) AddLogs(line []byte) error {
	message, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
	if err != nil {
		return fmt.Errorf("parsing logs in OTLP JSON of %d bytes: %w", len(line), err)
	}
	for _, resource := range message.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				o.addRecord(resource.Resource().Attributes(), record)
			}
		}
	}
	return nil
}

// begin is the beginning of the window.
func (o *Overview) begin() time.Time {
	if o.window == 0 {
		return time.Time{}
	}
	return o.latest.Add(-o.window)
}

// noteStart notes the beginning of a difference.
func (o *Overview) noteStart(t time.Time) {
	if o.first.IsZero() || t.Before(o.first) {
		o.first = t
	}
}

// covered is the time that the rates are of: the window, or as much of it as was observed.
func (o *Overview) covered() time.Duration {
	d := o.latest.Sub(o.first)
	if o.window > 0 {
		d = min(d, o.window)
	}
	return max(d, time.Second)
}

// forget drops series without new points and rows without anything in the window.
func (o *Overview) forget() {
	if o.window == 0 {
		return
	}
	for id, s := range o.series {
		if o.latest.Sub(s.last.time) > seriesAge {
			delete(o.series, id)
		}
	}
	for key, row := range o.requests {
		if row.slots.prune(o.begin()); len(row.slots) == 0 {
			delete(o.requests, key)
		}
	}
	for key, row := range o.connections {
		if row.prune(o.begin()) {
			delete(o.connections, key)
		}
	}
}

// text is the value of an attribute, empty where there is none.
func text(attributes pcommon.Map, key string) string {
	if v, ok := attributes.Get(key); ok {
		return v.AsString()
	}
	return ""
}
