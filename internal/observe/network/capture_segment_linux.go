// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// positionOf returns where a segment begins in its direction of the connection, 0 if unknown.
func positionOf(p *segment) uint32 {
	if p.Position == 0 {
		return 0
	}
	return p.Position - p.Length
}

// wireOf returns what TCP did for the call of a segment.
func wireOf(p *segment) l7.Wire {
	return l7.Wire{Counted: p.Packets > 0, Packets: int64(p.Packets) - 1, RTT: int64(p.Rtt) * time.Microsecond.Nanoseconds()}
}

// noteOpaque notes a connection of whose plaintext nothing was captured.
func (c *capture) noteOpaque(p *segment) {
	key := opaqueKey{subject: c.connectionOf(p).Subject}
	if c.libraryOf != nil && c.slot(p) != nil {
		key.library = c.libraryOf(key.subject.PID)
	}
	c.opaque.see(key)
}

// slot returns the kernel's series of a segment, nil if its slot belongs to another one now.
func (c *capture) slot(p *segment) *slot {
	if int(p.Series) >= len(c.slots.items) {
		return nil
	}
	at := &c.slots.items[p.Series]
	if at.Generation != p.Generation {
		return nil
	}
	return at
}

// transport returns the transport of a segment: TCP if it is no longer known, as most are streams.
func (c *capture) transport(p *segment) l7.Transport {
	at := c.slot(p)
	if at != nil && bindings.NetworkNetworkTransport(at.Key.Transport) == bindings.NetworkNetworkTransportNETWORK_UDP {
		return l7.UDP
	}
	return l7.TCP
}

// isUnix reports whether a segment is of a Unix socket.
func (c *capture) isUnix(p *segment) bool {
	at := c.slot(p)
	return at != nil && bindings.NetworkNetworkTransport(at.Key.Transport) == bindings.NetworkNetworkTransportNETWORK_UNIX
}

// connectionOf returns the connection of a segment, from the kernel's series.
func (c *capture) connectionOf(p *segment) requests.Connection {
	at := c.slot(p)
	if at == nil {
		return requests.Connection{}
	}
	return requests.Connection{
		Subject: observe.SubjectKey{PID: at.Key.Pid, StartBoottime: at.Key.StartBoottime, ExecID: at.Key.ExecId},
		Peer:    netip.AddrPortFrom(addressOf(at.Key.Family, at.Key.Address), at.Key.Port),
		Series:  p.Series, Generation: p.Generation,
		TLS: p.Protocol&uint8(bindings.NetworkNetworkProtocolNETWORK_TLS) != 0,
	}
}
