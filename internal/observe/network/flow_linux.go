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
)

// peer is the other end as the attributes say it. Comparable: it names a flow.
type peer struct {
	role      Role
	transport bindings.NetworkNetworkTransport
	address   netip.Addr // zero where there is none
	port      uint16     // of a server
	pid       uint32     // of a process on this host, 0: not known
	service   string     // of that process
	protocol  Protocol   // "" where it is not known, or connections carry several
	tls       bool       // of the connections one at least carried TLS
	overflow  bool
}

// flow is what one process does with one peer, as it is told: one series of the kernel
// or several whose attributes are the same.
type flow struct {
	peer
	attributes []model.Attribute
	start      time.Time
	members    []*series
	left       *totals // what members had counted that have left; nil while none has
	open       [states]int
	told       uint32 // states of connections that were told, as bits
	rests      int    // for so many reports it is told without members
}

// states is the number of states of a socket, as the kernel counts them; 0 is for
// sockets that have none.
const states = 16

func newFlow(p peer, start time.Time) *flow {
	return &flow{peer: p, attributes: p.attributes(), start: start}
}

// total is what was counted of the flow.
func (f *flow) total() *totals {
	if f.left == nil && len(f.members) == 1 {
		return f.members[0].since()
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

// leave takes a member out, and keeps what it has counted.
func (f *flow) leave(s *series) {
	f.members = slices.DeleteFunc(f.members, func(m *series) bool { return m == s })
	if f.left == nil {
		f.left = &totals{}
	}
	f.left.add(s.since())
}

// since is what the series has counted since it became a member of its flow.
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
		list = append(list, model.Text("ebpf.role", name))
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

// appendOther appends who is at the other end, and how it is reached. What is carried is of all its connections together, and not
// of each request.
func (p *peer) appendOther(list []model.Attribute) []model.Attribute {
	if name, ok := transportNames[p.transport]; ok {
		list = append(list, model.Text("network.transport", name))
	}
	if p.address.IsValid() {
		kind := "ipv6"
		if p.address.Is4() {
			kind = "ipv4"
		}
		list = append(list, model.Text("network.type", kind), model.Text("network.peer.address", p.address.String()))
	}
	if p.port > 0 {
		list = append(list, model.Int("network.peer.port", int64(p.port)))
	}
	if p.pid > 0 {
		list = append(list, model.Int("ebpf.peer.pid", int64(p.pid)))
	}
	if p.service != "" {
		list = append(list, model.Text("service.peer.name", p.service))
	}
	return list
}

// peerOf is what a key says of the peer by itself.
func peerOf(k *key) peer {
	return peer{
		role: Role(k.Role), transport: bindings.NetworkNetworkTransport(k.Transport),
		address: addressOf(k.Family, k.Address), port: k.Port, overflow: k.Overflow != 0,
	}
}

// addressOf reads an address that is in network order.
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
