// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

const (
	// monitorShare is the part of the memory limit that the series of monitors may take,
	// monitorSockets that of what the kernel remembers of sockets for them.
	monitorShare, monitorSockets = 64, 16
	// monitorBuffer is the ring buffer for what is read of requests.
	monitorBuffer = 2 << 20
)

// quiet is an observation of which nothing is told.
type quiet struct{ *network.Observer }

// Report implements observe.Observation.
func (q quiet) Report(until time.Time) model.Findings {
	q.Observer.Report(until)
	return model.Findings{}
}

// startMonitors has policies hear of requests.
func (e *Engine) startMonitors(_ Options, l provision) (*running, error) {
	observer, err := network.Start(network.Config{
		Only: network.Server, MapBytes: e.config.MemoryBytes / monitorShare, SocketBytes: l.memoryBytes / monitorSockets,
		ConnectionBytes: l.memoryBytes / connectionShare,
		Requests:        true, Protocols: []network.Protocol{network.HTTP, network.HTTP2}, BufferBytes: monitorBuffer,
		Answered: e.policies.answered, OnlyAnswered: true, Paths: e.policies.paths,
		TLS: network.TLSConfig{
			Libraries: tls.Libraries, Decide: e.deciding(l.host.scope), Open: e.symbols.Open, Charge: e.work.run,
		},
		Charge: e.work.run, SysRoot: e.sysRoot(), ProcRoot: e.procRoot(), Logger: e.logger,
	}, l.loader.Observing(uint32(l.host.scope)), e.sharedMaps(), l.host)
	if err != nil {
		return nil, err
	}
	return &running{Observation: quiet{observer}, starts: "watching requests for policies"}, nil
}
