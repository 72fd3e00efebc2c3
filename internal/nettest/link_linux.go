// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one end of a link: an interface in a namespace and its addresses.
type End struct {
	Namespace *Namespace
	Name      string
	IPv4      netip.Addr // of a /24
	IPv6      netip.Addr // of a /64
}

// Addresses of links: the network's third byte is the number of the link.
const (
	network4 = "10.77.%d.%d"
	network6 = "fd77:%x::%x"
)

// links counts the links of this process, so that no two have the same network.
var links atomic.Uint32

// ends names the two ends of the next link.
func ends(t testing.TB, a, b *Namespace) (End, End) {
	t.Helper()
	n := links.Add(1)
	require.LessOrEqual(t, n, uint32(255), "a test binary has at most 255 links")
	end := func(in *Namespace, host int) End {
		return End{
			Namespace: in, Name: fmt.Sprintf("link%d-%d", n, host),
			IPv4: netip.MustParseAddr(fmt.Sprintf(network4, n, host)),
			IPv6: netip.MustParseAddr(fmt.Sprintf(network6, n, host)),
		}
	}
	return end(a, 1), end(b, 2)
}

// Join joins two namespaces by a pair of veth interfaces.
func Join(t testing.TB, a, b *Namespace) (End, End) {
	t.Helper()
	endA, endB := ends(t, a, b)
	join(t, endA, endB)
	return endA, endB
}

// JoinLike joins two namespaces in the same way by the addresses of another link.
func JoinLike(t testing.TB, a, b *Namespace, likeA, likeB End) (End, End) {
	t.Helper()
	likeA.Namespace, likeB.Namespace = a, b
	join(t, likeA, likeB)
	return likeA, likeB
}

func join(t testing.TB, a, b End) {
	t.Helper()
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: a.Name}, PeerName: b.Name,
		PeerNamespace: netlink.NsFd(int(b.Namespace.file.Fd())),
	}
	require.NoError(t, a.Namespace.links.LinkAdd(pair), "making a pair of veth interfaces")
	a.address(t)
	b.address(t)
}

// address gives the interface its addresses and brings it up.
func (e End) address(t testing.TB) {
	t.Helper()
	link := e.Namespace.up(t, e.Name)
	for _, a := range []struct {
		ip   netip.Addr
		bits int
	}{{e.IPv4, 24}, {e.IPv6, 64}} {
		// Without the detection of duplicates an IPv6 address is usable at once.
		address := &netlink.Addr{IPNet: network(a.ip, a.bits), Flags: unix.IFA_F_NODAD}
		require.NoError(t, e.Namespace.links.AddrAdd(link, address), "giving %s the address %s", e.Name, a.ip)
	}
}

// RouteVia sends everything that has no other way to the other end of a link.
func (n *Namespace) RouteVia(t testing.TB, other End) {
	t.Helper()
	for _, via := range []netip.Addr{other.IPv4, other.IPv6} {
		require.NoError(t, n.links.RouteAdd(&netlink.Route{Gw: via.AsSlice()}), "routing via %s", via)
	}
}

// Forward makes a router of the namespace.
func (n *Namespace) Forward(t testing.TB) {
	t.Helper()
	for _, path := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		n.Sysctl(t, path, "1")
	}
}

// Sysctl writes a file below /proc/sys/net as the namespace has it.
func (n *Namespace) Sysctl(t testing.TB, path, value string) {
	t.Helper()
	require.NoError(t, n.Do(func() error { return os.WriteFile(path, []byte(value), 0) }), "setting %s", path)
}

// Routed is a client and a server with a router between them.
type Routed struct {
	Client, Router, Server *Namespace
	// ClientEnd is the client's interface and RouterIn that of the router towards it;
	// RouterOut is the router's interface towards the server's, ServerEnd.
	ClientEnd, RouterIn, RouterOut, ServerEnd End
}

// NewRouted makes three namespaces and joins them by veth: the client and the server route by the router.
func NewRouted(t testing.TB) *Routed {
	t.Helper()
	r := &Routed{Client: New(t), Router: New(t), Server: New(t)}
	r.ClientEnd, r.RouterIn = Join(t, r.Client, r.Router)
	r.RouterOut, r.ServerEnd = Join(t, r.Router, r.Server)
	r.Router.Forward(t)
	r.Client.RouteVia(t, r.RouterIn)
	r.Server.RouteVia(t, r.RouterOut)
	return r
}

func network(ip netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, ip.BitLen())}
}
