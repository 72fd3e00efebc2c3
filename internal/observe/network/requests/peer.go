// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/netip"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// PeerDetail is the detail in which metrics have the peers of connections.
type PeerDetail uint8

// Details of peers.
const (
	// PeerProcess: address, port of a server, pid and service.name.
	PeerProcess PeerDetail = iota
	// PeerAddress: address, port of a server and service.name.
	PeerAddress
	// PeerService: service.name where it is known, else address and port of a server.
	PeerService
	// PeerNone: nothing.
	PeerNone
)

// Peer is the remote end of a connection, its transport and protocol, as far as attributes have them. Fields are unset if they are unknown or
// left out.
type Peer struct {
	Transport, Type string // network.transport, network.type
	Address         netip.Addr
	Port            uint16 // of a server
	PID             uint32 // of a process of this host
	Service         string // of that process
	Local           bool   // whether it is a process of this host
}

// Append appends the attributes of a peer.
func (p *Peer) Append(list []model.Attribute) []model.Attribute {
	if p.Transport != "" {
		list = append(list, model.Text("network.transport", p.Transport))
	}
	if p.Type != "" {
		list = append(list, model.Text("network.type", p.Type))
	}
	if p.Address.IsValid() {
		list = append(list, model.Text("network.peer.address", p.Address.String()))
	}
	if p.Port > 0 {
		list = append(list, model.Int("network.peer.port", int64(p.Port)))
	}
	if p.PID > 0 {
		list = append(list, model.Int("ebpf.peer.pid", int64(p.PID)))
	}
	if p.Service != "" {
		list = append(list, model.Text("service.peer.name", p.Service))
	}
	if p.Local {
		list = append(list, model.Bool("ebpf.peer.local", true))
	}
	return list
}

// PeerRole returns the attribute with the role of the process that a metric is of.
func PeerRole(name string) model.Attribute { return model.Text("ebpf.role", name) }
