// SPDX-License-Identifier: Apache-2.0

package monitor

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// ProcessCPU is the CPU time that a process used in a second, in per cent of that of all the host's CPUs.
var ProcessCPU = &Descriptor{
	Name: "process_cpu", Unit: "per cent", Max: 100,
	Doc: "CPU time of all threads since the end of the last second, of that of all the host's CPUs",
	Metric: model.Descriptor{
		Name: "process.cpu.utilization", Unit: "1", Instrument: model.Gauge,
		Description: "CPU time that the process used in the last second, of that of all the host's CPUs.",
	},
	Scale: 0.01, Sums: true,
	Process: Process.CPUPercent,
}

// CPUPercent is the CPU time in per cent of that of all the host's CPUs; false if it is unknown.
func (p Process) CPUPercent() (percent float64, ok bool) {
	if p.Elapsed <= 0 {
		return 0, false
	}
	return min(100*float64(p.CPU)/float64(p.Elapsed)/float64(max(p.CPUs, 1)), 100), true
}
