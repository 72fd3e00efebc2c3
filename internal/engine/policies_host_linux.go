// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// pressures are the files that monitors of the kernel's pressure stall information read.
var pressures = map[policy.Monitor]string{
	policy.SystemCPUPressure: "cpu", policy.SystemMemoryPressure: "memory", policy.SystemIOPressure: "io",
}

// waited is for how long the host has waited for something, and when that was so.
type waited struct{ total, at time.Duration }

// readHost returns the values of the monitors of the host that any policy looks at.
func (p *policies) readHost(at time.Duration) map[policy.Monitor]float64 {
	values := map[policy.Monitor]float64{}
	for monitor := range p.hostMonitors() {
		value, ok, err := p.readMonitor(monitor, at)
		if err != nil {
			p.warnings.Warn(fmt.Errorf("%s has no values: %w", monitor, err))
		}
		if ok {
			values[monitor] = value
		}
	}
	return values
}

func (p *policies) hostMonitors() map[policy.Monitor]bool {
	monitors := map[policy.Monitor]bool{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.entries {
		for j := range p.entries[i].When {
			if monitor := p.entries[i].When[j].Monitor; monitor.OfHost() {
				monitors[monitor] = true
			}
		}
	}
	return monitors
}

// readMonitor is the value of the second that ends; false where there is none, as of pressure
// when it is read first.
func (p *policies) readMonitor(monitor policy.Monitor, at time.Duration) (value float64, ok bool, err error) {
	resource, isPressure := pressures[monitor]
	if !isPressure {
		load, err := kernel.ReadLoadAverage(p.proc)
		return load.OneMinute, err == nil, err
	}
	total, err := kernel.ReadPressure(p.proc, resource)
	if err != nil {
		return 0, false, err
	}
	before, known := p.waited[monitor]
	p.waited[monitor] = waited{total, at}
	if !known || at <= before.at {
		return 0, false, nil
	}
	return min(100*max(total-before.total, 0).Seconds()/(at-before.at).Seconds(), 100), true, nil
}
