// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// family is a value of network.type.
type family string

// Families of addresses.
const (
	noFamily   family = ""
	familyIPv4 family = "ipv4"
	familyIPv6 family = "ipv6"
)

// family returns that of the peer's address, also if the address is left out.
func (p *peer) family() family {
	switch {
	case !p.address.IsValid():
		return p.kind
	case p.address.Is4():
		return familyIPv4
	}
	return familyIPv6
}

// reduce removes from a peer what a detail does not include. Otherwise each process of a host and each of a server's clients would be a
// series.
func reduce(who peer, to requests.PeerDetail) peer {
	who.local = who.local || who.address.IsLoopback()
	switch to {
	case requests.PeerProcess:
		return who
	case requests.PeerAddress:
		who.pid = 0
		return who
	case requests.PeerService:
		who.pid = 0
		if who.service == "" && who.role == Client {
			return who
		}
	case requests.PeerNone:
		who.pid, who.service, who.local = 0, "", false
	}
	who.kind = who.family()
	who.address, who.port = netip.Addr{}, 0
	return who
}
