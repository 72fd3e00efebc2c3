// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

const (
	// monitorShare is the part of the memory limit that the series of monitors may take,
	// monitorSockets that of what the kernel keeps of sockets for them.
	monitorShare, monitorSockets = 64, 16
	// monitorBuffer is the ring buffer for what is captured of requests.
	monitorBuffer = 2 << 20
)

// quiet is an observation that exports nothing.
type quiet struct{ *Observer }

// Levels implements [observe.Reducer]: policies need all requests.
func (q quiet) Levels() int { return 0 }

// Report implements [observe.Observation].
func (q quiet) Report(until time.Time) model.Findings {
	q.Observer.Report(until)
	return model.Findings{}
}

var _ observe.Starter = (*MonitorPlan)(nil)

// Narrow selects the requests that leave the kernel. It is called before Start.
func (p *MonitorPlan) Narrow(paths *Paths) { p.paths = paths }

// Start implements [observe.Starter].
func (p *MonitorPlan) Start(env observe.Environment) (observe.Started, error) {
	paths, _ := p.paths.(*Paths)
	var monitored []Protocol
	for _, name := range protocol.Monitored() {
		monitored = append(monitored, Protocol(name))
	}
	observer, err := Start(Config{
		Only: Server, MapBytes: env.LimitBytes / monitorShare, SocketBytes: env.SocketBytes / monitorSockets,
		ConnectionBytes: env.SocketBytes / connectionShare,
		Requests:        true, Protocols: monitored, BufferBytes: monitorBuffer,
		Answered: env.Answered, OnlyAnswered: true, Paths: paths,
		TLS:    TLSConfig{Libraries: tls.Libraries, Decide: env.Decide, Open: env.Open, Charge: env.ChargeBackground},
		Charge: env.Charge, SysRoot: env.SysRoot, ProcRoot: env.ProcRoot, Logger: env.Logger,
	}, env.Loader.Observing(Monitors.Scope), env.Maps, env.Host)
	if err != nil {
		return observe.Started{}, err
	}
	return observe.Started{Observation: quiet{observer}, Describe: func() (string, []zap.Field) { return "watching requests for policies", nil }}, nil
}
