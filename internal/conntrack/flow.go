// SPDX-License-Identifier: Apache-2.0

package conntrack

import "net/netip"

// Protocols of a Flow, as in IP headers.
const (
	TCP uint8 = 6
	UDP uint8 = 17
)

// Flow is a connection from the view of one of its sides: its own address and that of the other.
type Flow struct {
	Protocol      uint8
	Local, Remote netip.AddrPort
}

// Reversed is the flow from the view of the other side if nothing is translated.
func (f Flow) Reversed() Flow {
	return Flow{Protocol: f.Protocol, Local: f.Remote, Remote: f.Local}
}

// unmapped is the flow with IPv4 addresses unmapped from IPv6, as the kernel's connection tracking has them.
func (f Flow) unmapped() Flow {
	plain := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
	return Flow{Protocol: f.Protocol, Local: plain(f.Local), Remote: plain(f.Remote)}
}

// askable reports whether connection tracking may know the flow.
func (f Flow) askable() bool {
	return (f.Protocol == TCP || f.Protocol == UDP) && f.Local.IsValid() && f.Remote.IsValid() &&
		f.Local.Addr().Is4() == f.Remote.Addr().Is4() && !f.Remote.Addr().IsUnspecified()
}
