// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// readHost returns the values of the monitors of the host that any policy uses.
func (p *policies) readHost(at time.Duration) map[*monitor.Descriptor]float64 {
	values := map[*monitor.Descriptor]float64{}
	for of := range p.hostMonitors() {
		value, ok, err := p.hostReader(of)(monitor.Roots{Proc: p.proc, Sys: p.sys}, at)
		if err != nil {
			p.warnings.Warn(fmt.Errorf("%s has no values: %w", of.Name, err))
		}
		if ok {
			values[of] = value
		}
	}
	return values
}

func (p *policies) hostMonitors() map[*monitor.Descriptor]bool {
	monitors := map[*monitor.Descriptor]bool{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.entries {
		for j := range p.entries[i].When {
			if of := p.entries[i].When[j].Monitor; of.OfHost() {
				monitors[of] = true
			}
		}
	}
	return monitors
}

// hostReader returns the reader of a monitor, which is made when the monitor is used first.
func (p *policies) hostReader(of *monitor.Descriptor) monitor.HostReader {
	read := p.hostReaders[of]
	if read == nil {
		if p.hostReaders == nil {
			p.hostReaders = map[*monitor.Descriptor]monitor.HostReader{}
		}
		read = of.Host()
		p.hostReaders[of] = read
	}
	return read
}
