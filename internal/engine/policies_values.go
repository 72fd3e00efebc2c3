// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// MonitorDescriptors returns those of the metrics that export the values of monitors.
func MonitorDescriptors() []*model.Descriptor {
	var list []*model.Descriptor
	for _, m := range monitor.All() {
		list = append(list, &m.Metric)
	}
	return list
}

// values are those of all monitors, by service instance or by process.
func values(watch *policy.Watch, byInstance bool, now time.Time) []*model.Metrics {
	of := map[model.Resource]*model.Metrics{}
	counted := map[valueKey]bool{}
	var list []*model.Metrics
	watch.Values(func(v policy.Value) {
		// Two rules of a policy may list the same path.
		key := valueKey{process: v.Process, policy: v.Policy, monitor: v.Monitor, path: v.Path}
		if counted[key] {
			return
		}
		counted[key] = true
		if byInstance && v.Process != nil {
			v.Process = v.Process.Instance()
		}
		resource := model.ResourceOf(v.Process)
		metrics := of[resource]
		if metrics == nil {
			metrics = &model.Metrics{Process: v.Process, Time: now}
			of[resource] = metrics
			list = append(list, metrics)
		}
		addValue(metrics, v)
	})
	return list
}

// valueKey is what a value is of.
type valueKey struct {
	process      *model.Process
	policy, path string
	monitor      *monitor.Descriptor
}

// addValue adds a value to those of the same resource, or combines it with that of another process of the service instance.
func addValue(to *model.Metrics, v policy.Value) {
	point := model.Point{Attributes: []model.Attribute{model.Text("ebpf.policy", v.Policy)}}
	if v.Path != "" {
		point.Attributes = append(point.Attributes, model.Text("ebpf.policy.uri", v.Path))
	}
	if v.Monitor.Integer {
		point.Int = int64(v.Value)
	} else {
		point.Float, point.IsFloat = v.Value*v.Monitor.Scale, true
	}
	for i := range to.Metrics {
		metric := &to.Metrics[i]
		if metric.Descriptor != &v.Monitor.Metric {
			continue
		}
		at := slices.IndexFunc(metric.Points, func(p model.Point) bool { return slices.Equal(p.Attributes, point.Attributes) })
		if at < 0 {
			metric.Points = append(metric.Points, point)
			return
		}
		combine(v.Monitor, &metric.Points[at], point)
		return
	}
	to.Metrics = append(to.Metrics, model.Metric{Descriptor: &v.Monitor.Metric, Points: []model.Point{point}})
}

// combine makes the value of a service instance of those of two of its processes. A mean over all requests is not known, so that of
// monitors of requests the highest is reported.
func combine(of *monitor.Descriptor, to *model.Point, from model.Point) {
	if of.Sums {
		to.Int += from.Int
		to.Float += from.Float
		return
	}
	to.Int, to.Float = max(to.Int, from.Int), max(to.Float, from.Float)
}
