// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

const (
	// monitorShare is the part of the memory limit that the series of monitors may take,
	// monitorSockets that of what the kernel remembers of sockets for them.
	monitorShare, monitorSockets = 64, 16
	// monitorBuffer is the ring buffer for what is read of requests.
	monitorBuffer = 2 << 20
	// monitorInterval is how often what has ended is forgotten.
	monitorInterval = 10 * time.Second
)

// quiet is an observation of which nothing is told.
type quiet struct{ *network.Observer }

// Report implements observe.Observation.
func (q quiet) Report(until time.Time) model.Findings {
	q.Observer.Report(until)
	return model.Findings{}
}

// startMonitors has policies hear of requests, unless the kind network lets them.
func (e *Engine) startMonitors(loader *kernel.Loader, host host) (*running, []process.Selector, error) {
	if !e.config.monitorsRequests() || e.config.networkHears() {
		return nil, nil, nil
	}
	observer, err := network.Start(network.Config{
		Only: network.Server, MapBytes: e.config.MemoryBytes / monitorShare, SocketBytes: e.config.MemoryBytes / monitorSockets,
		Requests: true, Protocols: []network.Protocol{network.HTTP, network.HTTP2}, BufferBytes: monitorBuffer,
		Answered: e.policies.answered, OnlyAnswered: true,
		TLS: network.TLSConfig{
			Libraries: tls.Libraries, Decide: e.deciding(lifecycle.ScopeMonitors),
			Open: e.symbols.Open, Charge: e.work.run,
		},
		Charge: e.work.run, SysRoot: e.sysRoot(), ProcRoot: e.procRoot(), Logger: e.logger,
	}, loader.Observing(uint32(lifecycle.ScopeMonitors)), e.sharedMaps(), host)
	if err != nil {
		return nil, nil, err
	}
	return &running{
		Observation: quiet{observer}, reportInterval: monitorInterval, starts: "watching requests for policies",
	}, e.config.monitorTargets(), nil
}
