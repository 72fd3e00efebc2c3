// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// monitored is how the values of a monitor are told.
type monitored struct {
	descriptor model.Descriptor
	// scale makes the unit of the metric of that of the monitor; whole says that values
	// are whole numbers.
	scale float64
	whole bool
}

var monitorMetrics = map[policy.Monitor]*monitored{
	policy.ProcessCPU: {scale: 0.01, descriptor: model.Descriptor{
		Name: "process.cpu.utilization", Unit: "1", Instrument: model.Gauge,
		Description: "CPU time that the process used in the last second, of that of all the host's CPUs.",
	}},
	policy.ProcessThreadCount: {scale: 1, whole: true, descriptor: model.Descriptor{
		Name: "process.thread.count", Unit: "{thread}", Instrument: model.Gauge, Description: "Threads of the process.",
	}},
	policy.SystemLoad: {scale: 1, descriptor: model.Descriptor{
		Name: "system.cpu.load_average.1m", Unit: "{thread}", Instrument: model.Gauge, Description: "Load average of the host over a minute.",
	}},
	policy.SystemCPUPressure: {scale: 0.01, descriptor: model.Descriptor{
		Name: "ebpf.system.cpu.pressure", Unit: "1", Instrument: model.Gauge, Description: "Part of the last second in which any thread of the host waited for a CPU.",
	}},
	policy.SystemMemoryPressure: {scale: 0.01, descriptor: model.Descriptor{
		Name: "ebpf.system.memory.pressure", Unit: "1", Instrument: model.Gauge,
		Description: "Part of the last second in which any thread of the host waited for memory to be reclaimed.",
	}},
	policy.SystemIOPressure: {scale: 0.01, descriptor: model.Descriptor{
		Name: "ebpf.system.io.pressure", Unit: "1", Instrument: model.Gauge, Description: "Part of the last second in which any thread of the host waited for a disk.",
	}},
	policy.HTTPErrorRate: {scale: 0.01, descriptor: model.Descriptor{
		Name: "ebpf.http.error_rate", Unit: "1", Instrument: model.Gauge,
		Description: "Part of the process's responses as an HTTP server whose status was 500 to 599, in the last second with any.",
	}},
	policy.HTTPAvgResponseTime: {scale: 0.001, descriptor: model.Descriptor{
		Name: "ebpf.http.avg_response_time", Unit: "s", Instrument: model.Gauge,
		Description: "Mean time that the process took as an HTTP server for the requests that it answered in the last second with any.",
	}},
}

// MonitorDescriptors are those of the metrics that tell the values of monitors.
func MonitorDescriptors() []*model.Descriptor {
	var list []*model.Descriptor
	for _, m := range policy.Monitors() {
		list = append(list, &monitorMetrics[m].descriptor)
	}
	return list
}

// values are those of all monitors, by process.
func values(watch *policy.Watch, now time.Time) []*model.Metrics {
	of := map[*model.Process]*model.Metrics{}
	var list []*model.Metrics
	watch.Values(func(v policy.Value) {
		metrics := of[v.Process]
		if metrics == nil {
			metrics = &model.Metrics{Process: v.Process, Time: now}
			of[v.Process] = metrics
			list = append(list, metrics)
		}
		addValue(metrics, v)
	})
	return list
}

func addValue(to *model.Metrics, v policy.Value) {
	how := monitorMetrics[v.Monitor]
	point := model.Point{Attributes: []model.Attribute{model.Text("ebpf.policy", v.Policy)}}
	if v.Path != "" {
		point.Attributes = append(point.Attributes, model.Text("ebpf.policy.uri", v.Path))
	}
	if how.whole {
		point.Int = int64(v.Value)
	} else {
		point.Float, point.IsFloat = v.Value*how.scale, true
	}
	for i := range to.Metrics {
		metric := &to.Metrics[i]
		if metric.Descriptor != &how.descriptor {
			continue
		}
		// Two rules of a policy may list the same path.
		if !slices.ContainsFunc(metric.Points, func(p model.Point) bool { return slices.Equal(p.Attributes, point.Attributes) }) {
			metric.Points = append(metric.Points, point)
		}
		return
	}
	to.Metrics = append(to.Metrics, model.Metric{Descriptor: &how.descriptor, Points: []model.Point{point}})
}
