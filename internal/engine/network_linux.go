// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// sides are what the network's observation calls the roles of the configuration.
var sides = map[Role]network.Role{BothRoles: network.NoRole, ClientRole: network.Client, ServerRole: network.Server}

// socketShare is the part of the memory limit that may be taken by what the kernel
// remembers of sockets. This and the following are shared by all observations that are about
// sockets, see [provision].
const socketShare = 4

// connectionShare is the part of the memory limit that may be taken by connections whose
// requests are told.
const connectionShare = 4

// journalShare is the part of the memory limit that may be taken by requests that wait to
// be told one by one.
const journalShare = 16

// contentShare is the part of it that may be taken by what is kept of messages for samples,
// until their exchanges have ended.
const contentShare = 16

// noTLS notes that nothing is seen of what a library encrypts.
func (e *Engine) noTLS(library tls.Library, why error) {
	what := "network.tls." + string(library)
	e.degrade(what, why)
}

func (e *Engine) startNetwork(options Options, l provision) (*running, error) {
	c := options.(*Network)
	libraries := make([]tls.Library, 0, len(c.TLS))
	for _, name := range c.TLS {
		libraries = append(libraries, tls.Library(name))
	}
	protocols := make([]network.Protocol, len(c.Protocols))
	for i, name := range c.Protocols {
		protocols[i] = network.Protocol(name)
	}
	journal := c.Journal
	journal.Bytes = l.memoryBytes / journalShare
	journal.Samples.Bytes = l.memoryBytes / contentShare
	var answered func(network.Answer)
	if c == e.config.Network && e.config.monitorsRequests() && e.config.networkHears() {
		answered = e.policies.answered
	}
	observer, err := network.Start(network.Config{
		Answered: answered,
		Only:     sides[c.Role],
		MapBytes: l.tableBytes, SocketBytes: l.memoryBytes / socketShare, ConnectionBytes: l.memoryBytes / connectionShare,
		ResolveNAT: c.ResolveNAT, Requests: c.Requests, Protocols: protocols, BufferBytes: c.BufferBytes, Journal: journal,
		TLS: network.TLSConfig{
			Libraries: libraries, Decide: e.deciding(l.host.scope), Open: e.symbols.Open, Charge: e.work.run,
			Unavailable: e.noTLS,
		},
		Charge: e.work.run, SysRoot: e.sysRoot(), ProcRoot: e.procRoot(), Logger: e.logger,
	}, l.loader, e.sharedMaps(), l.host)
	if err != nil {
		return nil, err
	}
	if why := observer.Degraded(); why != nil {
		e.degrade("network.calls", why)
	}
	return &running{Observation: observer, starts: "counting connections"}, nil
}
