// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// Name is the name of the kind.
const Name observe.Kind = "network"

// Descriptor describes the kind network: connections and what they carry.
var Descriptor = &observe.Descriptor{
	Name: Name, Scope: 1 << 3, RunsByDefault: true, TracksSockets: true, LoadsSlowly: true, WholeInstance: true,
	Pipelines: "metrics, logs or, with requests::spans and the protocols http or http2, traces",
	Default:   func() observe.Options { return DefaultOptions() },
}

// bufferShare is the part of the memory limit that the ring buffer may take.
const bufferShare = 4

// Role is a side of a connection.
type Role uint8

// Sides of a connection.
const (
	NoRole Role = iota
	Client      // connects
	Server      // accepts
)

// Protocol is one whose requests can be reported, as it is configured.
type Protocol string

// Protocols whose requests can be reported.
const (
	HTTP  Protocol = http1.Name // HTTP/1.0 and 1.1
	HTTP2 Protocol = "http2"    // and gRPC
	DNS   Protocol = dns.Name
)

// Plan is what one observation of the kind does.
type Plan struct {
	observe.Common
	// Role is the only one whose connections are observed; NoRole: both are.
	Role Role
	// Peers is how metrics describe the other side of connections.
	Peers requests.PeerDetail
	// ResolveNAT resolves translated addresses through the kernel's connection tracking.
	ResolveNAT bool
	// Requests has requests captured, those of Protocols; none: of all. BufferBytes is the size of the ring buffer for
	// what is captured of them, a power of two.
	Requests    bool
	Protocols   []Protocol
	BufferBytes uint32
	// TLS are the libraries that requests are captured from before they are encrypted.
	TLS []tls.Library
	// Journal configures which requests are exported one by one; Start sets its memory.
	Journal requests.JournalConfig
}

var (
	_ observe.Plan          = (*Plan)(nil)
	_ observe.RequestSource = (*Plan)(nil)
)

// Kind implements [observe.Plan].
func (*Plan) Kind() observe.Kind { return Name }

// Needs implements [observe.Plan].
func (p *Plan) Needs() observe.Needs {
	return observe.Needs{Mappings: p.Requests && len(p.TLS) > 0, NetAdmin: p.ResolveNAT, Spans: p.Journal.Spans}
}

// ReadsAllRequests implements [observe.RequestSource].
func (p *Plan) ReadsAllRequests() bool {
	if !p.Requests || len(p.Targets) > 0 || p.Role == Client {
		return false
	}
	for _, name := range protocol.Monitored() {
		if len(p.Protocols) > 0 && !slices.Contains(p.Protocols, Protocol(name)) {
			return false
		}
	}
	return !slices.ContainsFunc(tls.Libraries, func(library tls.Library) bool { return !slices.Contains(p.TLS, library) })
}
