// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// Parts of a second in which any thread of the host waited, in per cent, by the kernel's pressure stall information.
var (
	SystemCPUPressure    = pressure("system_cpu_pressure", "ebpf.system.cpu.pressure", "cpu", "a CPU")
	SystemMemoryPressure = pressure("system_memory_pressure", "ebpf.system.memory.pressure", "memory", "memory to be reclaimed")
	SystemIOPressure     = pressure("system_io_pressure", "ebpf.system.io.pressure", "io", "a disk")
)

// pressure is the monitor of the time in which any thread waited for a resource. file is the resource's name in /proc/pressure.
func pressure(name, metric, file, resource string) *Descriptor {
	return &Descriptor{
		Name: name, Unit: "per cent", Max: 100,
		Doc: "share of the second in which any thread of the host waited for " + resource,
		Metric: model.Descriptor{
			Name: metric, Unit: "1", Instrument: model.Gauge,
			Description: "Part of the last second in which any thread of the host waited for " + resource + ".",
		},
		Scale: 0.01,
		Host:  func() HostReader { return (&pressureReader{file: file}).read },
	}
}

// pressureReader computes the value of a second from the total since boot.
type pressureReader struct {
	file      string
	known     bool          // a total was read before
	total, at time.Duration // the total that was read last, and when
}

func (r *pressureReader) read(roots Roots, at time.Duration) (value float64, ok bool, err error) {
	total, err := proc.ReadPressure(roots.Proc, r.file)
	if err != nil {
		return 0, false, err
	}
	before := *r
	r.known, r.total, r.at = true, total, at
	if !before.known || at <= before.at {
		return 0, false, nil
	}
	return min(100*max(total-before.total, 0).Seconds()/(at-before.at).Seconds(), 100), true, nil
}
