// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// peer is the remote end for the attributes. It is comparable: it identifies a flow.
type peer struct {
	role      Role
	transport bindings.NetworkNetworkTransport
	address   netip.Addr // zero: none
	port      uint16     // of a server
	pid       uint32     // of a process on this host, 0: unknown
	service   string     // of that process
	local     bool       // the remote end is a process on this host
	kind      family     // of the address, if that is left out
	protocol  Protocol   // "" if it is unknown, or connections carry several
	tls       bool       // at least one of the connections carried TLS
	overflow  bool
}

// flow is what one process does with one peer, as it is exported: one of the kernel's series, or several with the same attributes.
type flow struct {
	peer
	attributes []model.Attribute
	start      time.Time
	members    []*series
	left       *totals // what members had counted that have left; nil if none has
	open       [states]int
	exported   uint32 // bits of the connection states that were exported
	rests      int    // for how many reports it has been exported without members
}

// states is the number of states of a socket, as the kernel counts them; 0 is for sockets without a state.
const states = 16

func newFlow(p peer, start time.Time) *flow {
	return &flow{peer: p, attributes: p.attributes(), start: start}
}

// total returns the counts of the flow.
func (f *flow) total() *totals {
	switch {
	case f.left == nil && len(f.members) == 1:
		return f.members[0].since()
	case f.left != nil && len(f.members) == 0:
		return f.left
	}
	sum := &totals{}
	if f.left != nil {
		sum.add(f.left)
	}
	for _, s := range f.members {
		sum.add(s.since())
	}
	return sum
}

// leave removes a member, and keeps its counts.
func (f *flow) leave(s *series) {
	f.members = slices.DeleteFunc(f.members, func(m *series) bool { return m == s })
	if f.left == nil {
		f.left = &totals{}
	}
	f.left.add(s.since())
}

// since returns what the series has counted since it became a member of its flow.
func (s *series) since() *totals {
	if s.before == nil {
		return &s.counted
	}
	rest := s.counted.copy()
	rest.subtract(s.before)
	return rest
}

// with returns the flow's attributes and more of them.
func (f *flow) with(more []model.Attribute) []model.Attribute {
	if len(more) == 0 {
		return f.attributes
	}
	all := make([]model.Attribute, 0, len(f.attributes)+len(more))
	return append(append(all, f.attributes...), more...)
}

// roleNames and transportNames are values of attributes.
var (
	roleNames      = map[Role]string{Client: "client", Server: "server"}
	transportNames = map[bindings.NetworkNetworkTransport]string{
		bindings.NetworkNetworkTransportNETWORK_TCP:  "tcp",
		bindings.NetworkNetworkTransportNETWORK_UDP:  "udp",
		bindings.NetworkNetworkTransportNETWORK_UNIX: "unix",
	}
)

func (p *peer) attributes() []model.Attribute {
	if p.overflow {
		return []model.Attribute{model.Bool("otel.metric.overflow", true)}
	}
	var list []model.Attribute
	if name, ok := roleNames[p.role]; ok {
		list = append(list, requests.PeerRole(name))
	}
	list = p.appendOther(list)
	if p.protocol != "" {
		list = append(list, model.Text("network.protocol.name", string(p.protocol)))
	}
	if p.tls {
		list = append(list, model.Bool("ebpf.tls", true))
	}
	return list
}

// appendOther appends the attributes of the peer and of the transport. The protocol is that of all connections of the flow together, not of
// each request.
func (p *peer) appendOther(list []model.Attribute) []model.Attribute {
	other := p.other()
	return other.Append(list)
}

// other converts the peer for requests.
func (p *peer) other() requests.Peer {
	if p.overflow {
		return requests.Peer{}
	}
	return requests.Peer{
		Transport: transportNames[p.transport], Type: string(p.family()), Address: p.address, Port: p.port, PID: p.pid, Service: p.service, Local: p.local,
	}
}

// peerOf returns the peer that a key itself has.
func peerOf(k *key) peer {
	return peer{
		role: Role(k.Role), transport: bindings.NetworkNetworkTransport(k.Transport),
		address: addressOf(k.Family, k.Address), port: k.Port, overflow: k.Overflow != 0,
	}
}

// addressOf reads an address in network byte order.
func addressOf(family uint8, words [4]uint32) netip.Addr {
	bytes := *(*[16]byte)(unsafe.Pointer(&words))
	switch family {
	case 4:
		return netip.AddrFrom4([4]byte(bytes[:4]))
	case 6:
		return netip.AddrFrom16(bytes)
	}
	return netip.Addr{}
}
