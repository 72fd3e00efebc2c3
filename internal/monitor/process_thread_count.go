// SPDX-License-Identifier: Apache-2.0

package monitor

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// ProcessThreadCount is the number of a process's threads.
var ProcessThreadCount = &Descriptor{
	Name: "process_thread_count", Unit: "threads",
	Doc: "their number at the end of the second",
	Metric: model.Descriptor{
		Name: "process.thread.count", Unit: "{thread}", Instrument: model.Gauge, Description: "Threads of the process.",
	},
	Scale: 1, Integer: true, Sums: true,
	Process: func(p Process) (float64, bool) { return float64(p.Threads), true },
}
