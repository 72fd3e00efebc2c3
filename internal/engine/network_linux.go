// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// sides are what the network's observation calls the roles of the configuration.
var sides = map[Role]network.Role{BothRoles: network.NoRole, ClientRole: network.Client, ServerRole: network.Server}

// socketShare is the part of the memory limit that may be taken by what the kernel
// remembers of sockets.
const socketShare = 4

// journalShare is the part of the memory limit that may be taken by requests that wait to
// be told one by one.
const journalShare = 16

func (e *Engine) startNetwork(loader *kernel.Loader, host host) (*running, []process.Selector, error) {
	c := e.config.Network
	if c == nil {
		return nil, nil, nil
	}
	protocols := make([]network.Protocol, len(c.Protocols))
	for i, name := range c.Protocols {
		protocols[i] = network.Protocol(name)
	}
	journal := c.Journal
	journal.Bytes = e.config.MemoryBytes / journalShare
	observer, err := network.Start(network.Config{
		Only:     sides[c.Role],
		MapBytes: e.tableShare(), SocketBytes: e.config.MemoryBytes / socketShare,
		ResolveNAT: c.ResolveNAT, Requests: c.Requests, Protocols: protocols, BufferBytes: c.BufferBytes, Journal: journal,
		SysRoot: e.sysRoot(), ProcRoot: e.procRoot(), Logger: e.logger,
	}, loader, e.sharedMaps(), host)
	if err != nil {
		return nil, nil, err
	}
	if why := observer.Degraded(); why != nil {
		e.degrade("network.calls", why)
	}
	return &running{
		Observation: observer, reportInterval: c.ReportInterval, starts: "counting connections",
	}, c.Targets, nil
}
