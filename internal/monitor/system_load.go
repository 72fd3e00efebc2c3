// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// SystemLoad is the host's load average over a minute.
var SystemLoad = &Descriptor{
	Name: "system_load", Unit: "threads",
	Doc: "the host's 1-minute load average at the end of the second",
	Metric: model.Descriptor{
		Name: "system.cpu.load_average.1m", Unit: "{thread}", Instrument: model.Gauge, Description: "Load average of the host over a minute.",
	},
	Scale: 1,
	Host:  func() HostReader { return readLoad },
}

func readLoad(roots Roots, _ time.Duration) (value float64, ok bool, err error) {
	load, err := proc.ReadLoadAverage(roots.Proc)
	return load.OneMinute, err == nil, err
}
