// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// Shares of the memory of all observations that track sockets, see [observe.Environment].SocketBytes.
const (
	// socketShare is that of what the kernel keeps of sockets.
	socketShare = 4
	// connectionShare is that of connections whose requests are captured.
	connectionShare = 4
	// requestShare is that of the series that requests are counted in, of their points in a report and of what exporters keep of them.
	requestShare = 4
	// journalShare is that of requests that wait to be exported one by one.
	journalShare = 16
	// contentShare is that of what is kept of messages for samples, until their exchanges have ended.
	contentShare = 16
)

var _ observe.Starter = (*Plan)(nil)

// Start implements [observe.Starter].
func (p *Plan) Start(env observe.Environment) (observe.Started, error) {
	journal := p.Journal
	journal.Bytes = env.SocketBytes / journalShare
	journal.Samples.Bytes = env.SocketBytes / contentShare
	buffer := p.BufferBytes
	for uint64(buffer) > env.LimitBytes/bufferShare { // the limit was reduced to that of a control group
		buffer /= 2
	}
	observer, err := Start(Config{
		Answered: env.Answered,
		Only:     p.Role, ByInstance: env.MetricsByInstance, ExponentialHistograms: env.ExponentialHistograms,
		MapBytes: env.TableBytes, SocketBytes: env.SocketBytes / socketShare, ConnectionBytes: env.SocketBytes / connectionShare,
		RequestBytes: env.SocketBytes / requestShare,
		ResolveNAT:   p.ResolveNAT, Peers: p.Peers, Requests: p.Requests, Protocols: p.Protocols, BufferBytes: buffer, Journal: journal,
		TLS: TLSConfig{
			Libraries: p.TLS, Decide: env.Decide, Open: env.Open, Charge: env.ChargeBackground,
			Unavailable: func(library tls.Library, why error) { env.Degrade("network.tls."+string(library), why) },
		},
		Charge: env.ChargeReducible, SysRoot: env.SysRoot, ProcRoot: env.ProcRoot, Logger: env.Logger,
	}, env.Loader, env.Maps, env.Host)
	if err != nil {
		return observe.Started{}, err
	}
	if why := observer.WithoutRequests(); why != nil {
		env.Unavailable("network.requests", why)
	}
	if why := observer.Degraded(); why != nil {
		env.Degrade("network.calls", why)
	}
	if why := observer.DegradedUring(); why != nil {
		env.Degrade("network.io_uring", why)
	}
	return observe.Started{Observation: observer, Describe: func() (string, []zap.Field) { return "counting connections", nil }}, nil
}
